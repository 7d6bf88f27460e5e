//! Carries the bytes between the two sides, and lets only one of them run at a time.
//!
//! What a side has written is taken when it sleeps, as a whole, and written to the other side at once. So
//! what arrives together does not depend on who is faster.

use super::asleep::BUSY_MAX;
use super::side::Side;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

pub(super) struct Relay {
    listener: TcpListener,
    server: String,
    links: Vec<Link>,
}

/// A connection of the client, and the one of the server that belongs to it.
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// Bytes from the client that the server has no room for.
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Relay {
    pub(super) fn to(server: &str) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(shown)?;
        listener.set_nonblocking(true).map_err(shown)?;
        Ok(Self { listener, server: server.to_owned(), links: Vec::new() })
    }

    pub(super) fn address(&self) -> String {
        self.listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    /// Carries bytes until the client says that it is done.
    pub(super) fn carry(&mut self, client: &Side, server: &Side) -> Result<(), String> {
        let mut moved = Instant::now();
        while !client.is_done()? {
            client.threads.wait(None)?;
            self.accept()?;
            let mut moves = false;
            for link in &mut self.links {
                take(&mut link.client, &mut link.to_server)?;
                moves |= give(&mut link.server, &mut link.to_server, server)?;
                server.threads.wait(None)?;
                take(&mut link.server, &mut link.to_client)?;
                moves |= give(&mut link.client, &mut link.to_client, client)?;
            }
            match moves {
                true => moved = Instant::now(),
                false if moved.elapsed() > BUSY_MAX => return Err("nothing gets on".to_owned()),
                false => std::thread::yield_now(),
            }
        }
        client.threads.wait(None)?;
        server.threads.wait(None)
    }

    fn accept(&mut self) -> Result<(), String> {
        match self.listener.accept() {
            Ok((client, _)) => {
                let server = TcpStream::connect(&self.server).map_err(shown)?;
                for socket in [&client, &server] {
                    socket.set_nodelay(true).map_err(shown)?;
                    socket.set_nonblocking(true).map_err(shown)?;
                }
                self.links.push(Link { client, server, to_server: vec![], to_client: vec![] });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(shown(error)),
        }
    }
}

/// Reads what has arrived.
fn take(from: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), String> {
    match from.read_to_end(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Ok(_) => Err("a side has closed its connection".to_owned()),
        Err(error) => Err(shown(error)),
    }
}

/// Writes what there is, and waits until the other side has seen it and sleeps again.
fn give(to: &mut TcpStream, bytes: &mut Vec<u8>, side: &Side) -> Result<bool, String> {
    if bytes.is_empty() {
        return Ok(false);
    }
    let before = side.threads.sleeps();
    match to.write(bytes) {
        Ok(written) => {
            bytes.drain(..written);
            side.threads.wait(Some(before))?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(shown(error)),
    }
}

fn shown(error: std::io::Error) -> String {
    format!("the relay: {error}")
}
