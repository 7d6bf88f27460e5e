//! Disconnects clients that have been silent for too long, without a task or a timer of ours:
//! every connection has its place on the timer wheel of its core, and moving bytes costs nothing.
//!
//! Run it: `cargo run --release --example idle_kick`; connect by `nc 127.0.0.1 7001`, wait.
//! Arguments are the address to listen on and the milliseconds of silence allowed.

use std::time::Duration;

use ringway::net::{Connection, Server};

fn main() -> ringway::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("tcp://127.0.0.1:7001".into());
    let idle_ms = args.next().map_or(Ok(10_000), |text| text.parse());
    let idle_timeout = Duration::from_millis(idle_ms.map_err(ringway::Error::other)?);

    let server = Server::bind(address.as_str())?.idle_timeout(idle_timeout);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async |mut connection: Connection| {
        let id = connection.id();
        loop {
            match connection.recv().await {
                Ok(Some(view)) => drop(connection.send(view)),
                Ok(None) => return Ok(()),
                Err(error) if error.is_timeout() => {
                    println!("kicked {id:?}");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    })
}
