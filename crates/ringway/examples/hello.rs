//! A service and its client in one program whose `main` stays an ordinary blocking function.
//!
//! Run it: `cargo run --release --example hello`. It greets itself once and ends.

use std::time::Duration;

use ringway::net::{Client, Connection, Framed, Requester, Server};
use ringway::runtime::block_on;
use ringway::wire::Line;

fn main() -> ringway::Result {
    // The server runs on threads of its own; `start` returns at once.
    let server = Server::bind("tcp://127.0.0.1:0")?.threads(1).start(greet)?;
    let address = server.addresses()[0].to_string();
    println!("listening on {address}");

    // The client runs on this thread, until its future is ready.
    let greeting = block_on(ask(address, "world"))??;
    println!("{greeting}");

    server.shutdown();
    server.wait()
}

async fn greet(connection: Connection) -> ringway::Result {
    let mut lines = Framed::new(connection, LINE);
    lines
        .for_each_frame(|name, out| {
            let greeting = format!("Hello, {}!", String::from_utf8_lossy(name));
            out.send(greeting.as_bytes())
        })
        .await
}

async fn ask(address: String, name: &str) -> ringway::Result<String> {
    let connection = Client::connect(address).await?;
    let server = Requester::in_order(Framed::new(connection, LINE), 16);
    let reply = server.request(name.as_bytes(), Duration::from_secs(1)).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

const LINE: Line = Line::new(1024);
