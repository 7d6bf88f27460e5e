//! A SOCKS4a proxy: connects clients to whatever host they name and forwards views of received
//! bytes in both directions without copying them.
//!
//! Run it: `cargo run --release --example socks4a`; use it:
//! `curl --proxy socks4a://127.0.0.1:1080 http://example.org/`. An argument is the address.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ringway::net::{Client, Connection, Peer, Server};
use ringway::runtime::timeout;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:1080".into());
    let server = Server::bind(address.as_str())?.idle_timeout(Duration::from_secs(300));
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(proxy)
}

async fn proxy(mut client: Connection) -> ringway::Result {
    let requested = timeout(REQUEST_TIMEOUT, request(&mut client)).await??;
    let Some((target, early)) = requested else { return Ok(()) };
    let connected = Client::connect(target).await;
    let code = if connected.is_ok() { 90 } else { 91 };
    client.write(&[0, code, 0, 0, 0, 0, 0, 0]);
    let mut server = connected?;
    server.write(&early);
    forward(&mut client, &mut server).await
}

/// Where the client wants to connect to, and what it sent behind that; `None` for nonsense.
async fn request(client: &mut Connection) -> ringway::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    while bytes.len() < REQUEST_BYTES_MAX && bytes.starts_with(&CONNECT[..bytes.len().min(2)]) {
        match client.recv().await? {
            Some(view) => bytes.extend_from_slice(&view),
            None => break,
        }
        if let Some((target, rest)) = parse(&bytes) {
            return Ok(Some((target, rest.to_vec())));
        }
    }
    Ok(None)
}

/// Version 4, command 1, port, IPv4 address, user, 0; then, if the address is 0.0.0.x, host, 0.
fn parse(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (&[4, 1, p, q, a, b, c, d], text) = bytes.split_first_chunk()? else {
        return None;
    };
    let port = u16::from_be_bytes([p, q]);
    let (_user, rest) = split_at_zero(text)?;
    if (a, b, c) != (0, 0, 0) {
        return Some((format!("tcp://{a}.{b}.{c}.{d}:{port}"), rest));
    }
    let (host, rest) = split_at_zero(rest)?;
    Some((format!("tcp://{}:{port}", host.escape_ascii()), rest))
}

fn split_at_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let zero = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..zero], &bytes[zero + 1..]))
}

/// Forwards until both sides have finished sending.
async fn forward(client: &mut Connection, server: &mut Connection) -> ringway::Result {
    let (mut up, mut down) = (true, true);
    poll_fn(|cx| {
        while up && let Poll::Ready(moved) = poll_move(client, server, cx) {
            up = moved?;
        }
        while down && let Poll::Ready(moved) = poll_move(server, client, cx) {
            down = moved?;
        }
        match up || down {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    })
    .await
}

/// Moves one view if the receiving side keeps up; `false` at the end.
fn poll_move(from: &mut Connection, to: &Peer, cx: &mut Context) -> Poll<ringway::Result<bool>> {
    ready!(to.poll_drained(cx))?;
    let received = ready!(from.poll_recv(cx))?;
    let goes_on = received.is_some();
    match received {
        Some(view) => drop(to.send(view)),
        None => to.shutdown(),
    }
    Poll::Ready(Ok(goes_on))
}

const CONNECT: [u8; 2] = [4, 1];
const REQUEST_BYTES_MAX: usize = 512;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
