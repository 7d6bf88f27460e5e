//! Machines with input written by hand, and their reactions.

use std::time::Duration;

use ringway_wire::native::{Client, Server, Violation};

use super::pair::{Asked, Told};

/// The reaction of a server to bytes, on a clock that stands.
pub(crate) fn feed(server: &mut Server, input: &[u8]) -> Result<Vec<Asked>, Violation> {
    feed_at(server, input, Duration::ZERO)
}

/// The reaction of a server to bytes at a time.
pub(crate) fn feed_at(
    server: &mut Server,
    mut input: &[u8],
    now: Duration,
) -> Result<Vec<Asked>, Violation> {
    let mut events = Vec::new();
    while let Some(event) = server.receive(&mut input, now)? {
        events.push(Asked::from(event));
    }
    Ok(events)
}

/// The reaction of a client to bytes, on a clock that stands.
pub(crate) fn hear(client: &mut Client, mut input: &[u8]) -> Result<Vec<Told>, Violation> {
    let mut events = Vec::new();
    while let Some(event) = client.receive(&mut input, Duration::ZERO)? {
        events.push(Told::from(event));
    }
    Ok(events)
}
