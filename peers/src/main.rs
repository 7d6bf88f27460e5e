//! Plain servers and a plain client that Ringway is measured against.
//!
//! `ringway-peers serve <kind>` runs one echo server on one thread, `ringway-peers client
//! pingpong` measures any echo server. Nothing here depends on a Ringway crate, and no Ringway
//! crate depends on this one: `ringway bench --peers` starts it as a process.

mod address;
mod args;
mod client;
mod discard;
mod epoll;
mod limits;
mod listener;
mod monoio_echo;
mod process;
mod stop;
mod tokio_echo;
mod uring;

use std::error::Error;
use std::process::ExitCode;

use args::{Command, Kind, PingPong, Serve};
use listener::Listener;
use stop::Stop;

fn main() -> ExitCode {
    match args::parse().and_then(run) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ringway-peers: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Help => {
            print!("{}", args::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(serve) => run_server(serve),
        Command::PingPong(options) => run_client(&options),
    }
}

fn run_server(options: Serve) -> Result<ExitCode, Box<dyn Error>> {
    process::prepare(options.core)?;
    let stop = Stop::on_signals()?;
    let listener = Listener::bind(&options.listen)?;
    let cleanup = listener.socket_file();
    let serve = match options.kind {
        Kind::Epoll => epoll::serve,
        Kind::EpollDiscard => discard::serve,
        Kind::Uring => uring::serve,
        Kind::Tokio => tokio_echo::serve,
        Kind::Monoio => monoio_echo::serve,
    };
    let outcome = serve(listener, stop);
    drop(cleanup);
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn run_client(options: &PingPong) -> Result<ExitCode, Box<dyn Error>> {
    process::prepare(options.core)?;
    let report = client::ping_pong(options)?;
    println!("{}", report.to_json());
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
