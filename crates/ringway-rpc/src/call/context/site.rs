//! Where calls are served.

use std::sync::Arc;

use ringway_net::Connection;

use super::drain::Drain;
use super::peer::Peer;

/// What all calls of a connection have in common.
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

    /// Of a call that came over no connection.
    pub(crate) fn unknown() -> Self {
        Self { peer: Peer::unknown(), core: 0, drain: Arc::default() }
    }
}
