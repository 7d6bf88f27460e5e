//! The `ringway` tool: `serve` runs servers, `call` calls their methods, `registry` lists and changes who is registered, `bench` measures them,
//! and `report` compares results.
//!
//! Exit status: 0 for success, 1 if something failed or a measurement had errors, 2 if the arguments
//! were wrong.

mod allocations;
mod args;
mod bench;
mod call;
mod clock;
mod command_line;
mod control;
mod cores;
mod echo_service;
mod environment;
mod foreign;
mod histogram;
mod limits;
mod log;
mod mongo_books;
mod payload;
mod process;
mod progress;
mod registry;
mod repeats;
mod report;
mod serve;
mod stderr;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use args::Config;

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        let is_unread = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(is_unread) {
            return ExitCode::SUCCESS; // as behind `| head`, which has read enough
        }
        stderr::complain(error);
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    log::install();
    let allowed = environment::cores_allowed()?;
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    match args::parse(args, &allowed) {
        Err(answer) => Ok(ExitCode::from(answer.print()?)),
        Ok(Config::Serve(config)) => serve::run(&config).map(|()| ExitCode::SUCCESS),
        Ok(Config::Call(config)) => call::run(config),
        Ok(Config::Registry(config)) => registry::run(config),
        Ok(Config::Report(config)) => {
            report::run(&config, &mut std::io::stdout()).map(|()| ExitCode::SUCCESS)
        }
        Ok(Config::Bench(config)) => {
            let is_clean = bench::run(&config, &allowed, &mut std::io::stdout())?;
            Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Ok(Config::Tether(config)) => Err(process::become_command(&config).into()),
    }
}
