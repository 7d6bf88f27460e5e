//! A running server, as other threads see it.

use std::fmt;
use std::sync::Arc;

use ringway_net::{Address, Result};

use super::shared::ServerShared;
use super::stats::ServerStats;
use crate::builtin::health::Health;
use crate::metrics::Snapshot;

/// A running server; cheap to clone. When the last handle is dropped, the server shuts down.
#[derive(Clone)]
pub struct ServerHandle {
    net: ringway_net::ServerHandle,
    shared: Arc<ServerShared>,
    health: Health,
}

impl ServerHandle {
    pub(super) fn new(
        net: ringway_net::ServerHandle,
        shared: Arc<ServerShared>,
        health: Health,
    ) -> Self {
        Self { net, shared, health }
    }

    /// Where the server listens, with the ports that the kernel gave.
    pub fn addresses(&self) -> &[Address] {
        self.net.addresses()
    }

    /// Asks the server to end gracefully and returns at once. Its health says NOT_SERVING; after
    /// the drain's delay new calls are refused as not executed; those that run may finish until the
    /// drain's timeout.
    pub fn shutdown(&self) {
        self.net.shutdown();
    }

    /// Asks the server to end now: connections are reset.
    pub fn abort(&self) {
        self.net.abort();
    }

    /// Blocks until the server has ended. It does not ask it to.
    ///
    /// # Errors
    /// The error of a core that failed; told once.
    pub fn wait(&self) -> Result {
        self.net.wait()
    }

    /// Whether the server has been asked to end.
    pub fn is_draining(&self) -> bool {
        self.net.is_draining()
    }

    /// What the server says of its health, to be changed at any time.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What the server has counted so far.
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// Counts and latencies of the methods.
    pub fn metrics(&self) -> Snapshot {
        self.shared.metrics.snapshot()
    }

    /// Connections, sockets and cores.
    pub fn net(&self) -> &ringway_net::ServerHandle {
        &self.net
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerHandle").field(&self.addresses()).finish()
    }
}
