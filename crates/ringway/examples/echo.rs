//! Sends every byte back. The whole service is the body of `main`.
//!
//! Run it, then talk to it: `cargo run --release --example echo`, `nc 127.0.0.1 7001`.
//! An argument is the address to listen on: `tcp://[::]:7001`, `unix:///tmp/echo.sock` …

use std::time::Duration;

use ringway::net::{Connection, Server};

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:7001".into());
    let server = Server::bind(address.as_str())?.idle_timeout(Duration::from_secs(60));
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async |mut connection: Connection| {
        while let Some(view) = connection.recv().await? {
            connection.send(view); // queued without a copy; leaves with the turn
        }
        Ok(())
    })
}
