//! Machines that are given bytes by hand, and what they make of them.

use std::time::Duration;

use ringway_wire::native::{Client, Server, Violation};

use super::pair::{Asked, Told};

/// What a server makes of bytes, on a clock that stands.
pub(crate) fn feed(server: &mut Server, input: &[u8]) -> Result<Vec<Asked>, Violation> {
    feed_at(server, input, Duration::ZERO)
}

/// What a server makes of bytes that come at a time.
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

/// What a client makes of bytes, on a clock that stands.
pub(crate) fn hear(client: &mut Client, mut input: &[u8]) -> Result<Vec<Told>, Violation> {
    let mut events = Vec::new();
    while let Some(event) = client.receive(&mut input, Duration::ZERO)? {
        events.push(Told::from(event));
    }
    Ok(events)
}
