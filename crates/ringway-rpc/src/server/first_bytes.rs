//! Which protocol a connection speaks, told by its first bytes.

use std::time::Duration;

use ringway_net::{Connection, Result, View};
use ringway_runtime::sleep;
use ringway_wire::{Detected, detect};

use super::race::{Raced, race};
use crate::limits;

/// What a connection began with.
#[derive(Debug)]
pub(crate) enum FirstBytes {
    /// A protocol, and what has been received of it.
    Speaks(Detected, View),
    /// Nothing, or not enough to tell, within the time for it.
    Silent,
    /// It was closed before it could be told.
    Closed,
}

/// Receives until the protocol is told, and never guesses from a part of its mark.
pub(crate) async fn first_bytes(connection: &mut Connection) -> Result<FirstBytes> {
    first_bytes_within(connection, limits::FIRST_BYTES_TIMEOUT).await
}

async fn first_bytes_within(connection: &mut Connection, limit: Duration) -> Result<FirstBytes> {
    match race(receive_mark(connection), sleep(limit)).await {
        Raced::First(opening) => opening,
        Raced::Second(()) => Ok(FirstBytes::Silent),
    }
}

async fn receive_mark(connection: &mut Connection) -> Result<FirstBytes> {
    let Some(first) = connection.recv().await? else { return Ok(FirstBytes::Closed) };
    let detected = detect(&first);
    if detected != Detected::NeedMore {
        return Ok(FirstBytes::Speaks(detected, first));
    }
    // A mark that comes in pieces is rare, and at most two dozen bytes are needed.
    let mut received = first.to_vec();
    drop(first); // a part of a mark is not to keep a receive buffer
    loop {
        let Some(next) = connection.recv().await? else { return Ok(FirstBytes::Closed) };
        received.extend_from_slice(&next);
        let detected = detect(&received);
        if detected != Detected::NeedMore {
            return Ok(FirstBytes::Speaks(detected, View::from(received)));
        }
    }
}
