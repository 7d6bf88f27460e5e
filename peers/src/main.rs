//! Servers and clients that Ringway is measured against.
//!
//! `ringway-peers serve <kind>` runs one echo server on one thread; `ringway-peers client
//! pingpong` measures any echo server of plain bytes, the other clients those of RPC frameworks.
//! Nothing here depends on a Ringway crate, and no Ringway crate depends on this one: `ringway
//! bench --peers` starts it as a process.

mod accept;
mod address;
mod args;
mod client;
mod discard;
mod epoll;
mod http2_floor;
mod http2_frames;
mod jsonrpsee_echo;
mod limits;
mod listener;
mod message;
mod monoio_echo;
mod process;
mod stop;
mod tarpc_echo;
mod tokio_echo;
mod tonic_echo;
mod uring;

use std::error::Error;
use std::process::ExitCode;

use args::{Command, Kind, Serve, Workload};
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
        Command::Client(client) => run_client(&client).map_err(|error| error as Box<dyn Error>),
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
        Kind::Tonic => tonic_echo::serve,
        Kind::Http2Floor => http2_floor::serve,
        Kind::Jsonrpsee => jsonrpsee_echo::serve,
        Kind::Tarpc => tarpc_echo::serve,
    };
    let outcome = serve(listener, stop);
    drop(cleanup);
    outcome?;
    Ok(ExitCode::SUCCESS)
}

fn run_client(client: &Workload) -> Result<ExitCode, Box<dyn Error + Send + Sync>> {
    process::prepare(client.load().core)?;
    let report = match client {
        Workload::PingPong(load) => client::ping_pong(load)?,
        Workload::Calls(options) => client::calls(options)?,
        Workload::Streams(options) => client::streams(options)?,
        Workload::Flood(options) => client::flood(options)?,
        Workload::Mongo(options) => client::mongo(options)?,
    };
    println!("{}", report.to_json());
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
