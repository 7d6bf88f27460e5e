//! Fixed work on one core, as `cargo xtask cost` asks for it: one process for each side of a row.

mod double;
mod echo;
mod load;
mod rows;
mod servers;
mod side;

use std::error::Error;
use std::process::ExitCode;

use rows::{ROWS, Row};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway-cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match *words {
        ["rows"] => {
            ROWS.iter().for_each(|row| println!("{row}"));
            Ok(())
        }
        ["server", backend, row, folder] => {
            side::serve(find(row)?, backend.parse()?, folder.as_ref())
        }
        ["client", backend, row, address] => {
            side::call(find(row)?, backend.parse()?, address.parse()?)
        }
        _ => Err(USAGE.into()),
    }
}

const USAGE: &str =
    "usage: ringway-cost rows | server BACKEND ROW FOLDER | client BACKEND ROW ADDRESS";

fn find(name: &str) -> Result<&'static Row, String> {
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| format!("no row `{name}`"))
}
