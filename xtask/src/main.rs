//! The project's own chores, run as `cargo xtask …`; see `cargo xtask --help`.

mod args;
mod cost;
mod gate;
mod needs;
mod steps;
mod tidy;

use args::Command;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args::parse(&words) {
        Ok(Command::Help) => {
            print!("{}", args::help());
            Ok(true)
        }
        Ok(Command::Tidy(view)) => {
            tidy::run(root(), view).map_err(|e| format!("cannot read the project: {e}"))
        }
        Ok(Command::Cost(settings)) => cost::run(root(), &settings),
        Ok(Command::Gate { settings, only }) => gate::run(&settings, only),
        Err(message) => Err(message),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The project's root directory.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the project's root")
}

/// Nothing was checked: a wrong argument, a missing program, an unreadable file.
const EXIT_USAGE: u8 = 2;
