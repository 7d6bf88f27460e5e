//! A chat of lines: what one client writes, all others read. A message is encoded once, and all
//! members of the group share its buffer; a member that reads too slowly is disconnected, so that
//! it can hold up neither the others nor the server's memory.
//!
//! Run it: `cargo run --release --example chat`; join from several terminals: `nc 127.0.0.1 7001`.
//! An argument is the address to listen on.

use ringway::net::{Connection, Framed, Group, Server, SlowReader};
use ringway::wire::Line;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:7001".into());
    let server =
        Server::bind(address.as_str())?.high_water(UNREAD_BYTES_MAX).slow_reader(SlowReader::Close);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let room = Group::new();
    server.serve(async move |connection: Connection| chat(connection, &room).await)
}

async fn chat(connection: Connection, room: &Group) -> ringway::Result {
    let (me, _membership) = (connection.id(), room.join(&connection));
    let mut lines = Framed::new(connection, Line::new(LINE_BYTES_MAX));
    lines.send(b"welcome")?;
    lines
        .for_each_frame(|line, _| {
            let message = [line, b"\n"].concat();
            room.send_if(message, move |member| member.id() != me);
            Ok(())
        })
        .await
}

/// Bytes of the longest line; who writes a longer one is disconnected.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes that may wait for a member besides what the kernel holds for it.
const UNREAD_BYTES_MAX: usize = 256 * 1024;
