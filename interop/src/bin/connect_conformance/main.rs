//! What Connect's conformance suite tests: a server or a client of its service.
//!
//! The suite starts it, writes requests to its standard input and reads the outcomes from its standard output.

mod client;
mod messages;
mod server;
mod suite;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("server") => server::run(),
        Some("client") => client::run(),
        _ => Err("say which is tested: `server` or `client`".into()),
    }
}
