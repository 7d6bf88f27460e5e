//! The place where a call is served.

use std::sync::Arc;

use ringway_net::Connection;

use super::drain::Drain;
use super::peer::Peer;

/// The properties that all calls of a connection share.
#[derive(Clone)]
pub(crate) struct Site {
    peer: Peer,
    /// The number of the core in its server.
    pub(super) core: usize,
    pub(super) drain: Arc<Drain>,
}

impl Site {
    pub(crate) fn of(connection: &Connection, drain: &Arc<Drain>) -> Self {
        let peer = Peer::of(connection);
        Self { peer, core: connection.core().unwrap_or(0), drain: Arc::clone(drain) }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Makes the site of a call without a connection.
    pub(crate) fn unknown() -> Self {
        Self { peer: Peer::unknown(), core: 0, drain: Arc::default() }
    }
}
