//! A running server, as other threads see it.

use std::fmt;
use std::sync::Arc;

use super::control::Phase;
use super::sessions::Sessions;
use super::shared::ServerShared;
use super::stats::ServerStats;
use crate::address::Address;
use crate::error::Result;

/// A running server; cheap to clone. When the last handle is dropped, the server shuts down.
#[derive(Clone)]
pub struct ServerHandle {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<ServerShared>,
}

impl ServerHandle {
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        Self { inner: Arc::new(Inner { shared }) }
    }

    /// The addresses that the server listens on, with the ports that the kernel gave.
    pub fn addresses(&self) -> &[Address] {
        &self.inner.shared.addresses
    }

    /// Asks the server to end gracefully and returns at once: no new connections, what has arrived
    /// is answered, and what has not ended at the drain's timeout is cut off.
    pub fn shutdown(&self) {
        self.inner.shared.control.advance(Phase::Asked);
    }

    /// Asks the server to end now: connections are reset.
    pub fn abort(&self) {
        self.inner.shared.control.advance(Phase::Aborting);
    }

    /// Blocks until the server has ended. It does not ask it to.
    ///
    /// # Errors
    /// The error of a core that failed, and [`is_timeout`](crate::Error::is_timeout) when a core does not end
    /// after the connections were cut off, mostly since a handler keeps its thread; told once.
    pub fn wait(&self) -> Result {
        self.inner.shared.control.wait_ended()
    }

    /// Whether the server has been asked to end.
    pub fn is_draining(&self) -> bool {
        self.inner.shared.control.phase() > Phase::Running
    }

    /// The connections, to be reached by their ids.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.inner.shared))
    }

    /// The counters of the server and its cores.
    pub fn stats(&self) -> ServerStats {
        ServerStats::of(&self.inner.shared)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.control.advance(Phase::Asked);
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerHandle").field(&self.addresses()).finish()
    }
}
