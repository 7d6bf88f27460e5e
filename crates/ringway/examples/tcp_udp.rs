//! TCP and UDP on the same port of one server: both send back what they receive.
//!
//! Run it: `cargo run --release --example tcp_udp`; talk to it: `nc 127.0.0.1 7001` and
//! `nc -u 127.0.0.1 7001`. An argument is the address to listen on, without a scheme.

use ringway::net::{Connection, Datagram, Responder, Server};

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7001".into());
    let server = Server::bind(["tcp", "udp"].map(|kind| format!("{kind}://{address}")))?
        .on_datagram(async |datagram: Datagram, responder: Responder| {
            responder.send(datagram.into_view());
            Ok(())
        });
    let server = server.on_ready(|addresses| {
        addresses.iter().for_each(|address| println!("listening on {address}"));
    });
    server.serve(async |mut connection: Connection| {
        while let Some(view) = connection.recv().await? {
            connection.send(view);
        }
        Ok(())
    })
}
