//! The place where a call is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringway_net::Connection;

use super::drain::Drain;
use super::peer::Peer;

/// The properties that all calls of a connection share.
#[derive(Clone)]
pub(crate) struct Site {
    /// Tells the connections of a process apart.
    id: u64,
    peer: Peer,
    /// The number of the core in its server.
    pub(super) core: usize,
    pub(super) drain: Arc<Drain>,
}

impl Site {
    pub(crate) fn of(connection: &Connection, drain: &Arc<Drain>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (id, peer) = (NEXT_ID.fetch_add(1, Ordering::Relaxed), Peer::of(connection));
        Self { id, peer, core: connection.core().unwrap_or(0), drain: Arc::clone(drain) }
    }

    /// The number of the connection, which all that carry calls over it share.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Makes the site of a call without a connection.
    pub(crate) fn unknown() -> Self {
        Self { id: 0, peer: Peer::unknown(), core: 0, drain: Arc::default() }
    }
}
