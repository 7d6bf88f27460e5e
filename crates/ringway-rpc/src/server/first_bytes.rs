//! Protocol detection from the first bytes of a connection.

use std::time::Duration;

use ringway_net::{Connection, Result, View};
use ringway_runtime::sleep;
use ringway_wire::{Detected, detect};

use super::race::{Raced, race};
use crate::limits;

/// How a connection began.
#[derive(Debug)]
pub(crate) enum FirstBytes {
    /// The protocol was detected; the view holds the bytes received so far.
    Speaks(Detected, View),
    /// Too few bytes for detection arrived in time.
    Silent,
    /// The connection was closed before its protocol was known.
    Closed,
}

/// Reads until the protocol is certain; never decides on a partial magic.
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
    // A magic in several pieces is rare, and no more than two dozen bytes long.
    let mut received = first.to_vec();
    drop(first); // a partial magic should not hold a receive buffer
    loop {
        let Some(next) = connection.recv().await? else { return Ok(FirstBytes::Closed) };
        received.extend_from_slice(&next);
        let detected = detect(&received);
        if detected != Detected::NeedMore {
            return Ok(FirstBytes::Speaks(detected, View::from(received)));
        }
    }
}
