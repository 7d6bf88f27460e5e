//! The connections of a server, reached by their ids from any thread.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ringway_runtime::RemoteHandle;

use super::context::CoreContext;
use super::shared::ServerShared;
use crate::connection::Peer;
use crate::error::{Error, Kind, Result};
use crate::session::ConnectionId;

/// The connections of a server; cheap to clone, usable on any thread.
///
/// Each call sends one message to the core that owns the connection. It is no error if the
/// connection has ended meanwhile: then nothing happens.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<ServerShared>,
}

impl Sessions {
    pub(crate) fn new(shared: Arc<ServerShared>) -> Self {
        Self { shared }
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.shared.open()
    }

    /// Returns the largest number of connections that were open at once.
    pub fn peak(&self) -> usize {
        self.shared.peak()
    }

    /// Queues a whole message on a connection, under the server's slow-reader policy.
    ///
    /// # Errors
    /// Fails like [`with`](Self::with).
    pub fn send(&self, id: ConnectionId, message: impl Into<Bytes>) -> Result {
        let message = message.into();
        self.with(id, move |peer| peer.inner().push(message)).map(drop)
    }

    /// Ends a connection like [`Peer::close`].
    ///
    /// # Errors
    /// Fails like [`with`](Self::with).
    pub fn close(&self, id: ConnectionId) -> Result {
        self.with(id, Peer::close).map(drop)
    }

    /// Resets a connection like [`Peer::abort`].
    ///
    /// # Errors
    /// Fails like [`with`](Self::with).
    pub fn abort(&self, id: ConnectionId) -> Result {
        self.with(id, Peer::abort).map(drop)
    }

    /// Runs `f` with a connection, on the core that owns it; the result is `None` if the connection
    /// has ended.
    ///
    /// # Errors
    /// Fails when the id belongs to another server, when the core's mailbox is full
    /// ([`is_limit`](Error::is_limit)) and when the server has ended
    /// ([`is_closed`](Error::is_closed)).
    pub fn with<T, F>(&self, id: ConnectionId, f: F) -> Result<RemoteHandle<Option<T>>>
    where
        F: FnOnce(&Peer) -> T + Send + 'static,
        T: Send + 'static,
    {
        let core = self.shared.home(id).ok_or_else(|| {
            Error::new(Kind::Misuse, format!("connection {id} belongs to another server"))
        })?;
        let there = async move || {
            let inner = CoreContext::current()?.connections.find(id)?;
            Some(f(&Peer::of_inner(inner)))
        };
        Ok(core.spawn(there)?)
    }
}

impl Peer {
    /// Returns the connections of the server; `None` if the connection belongs to no server.
    pub fn sessions(&self) -> Option<Sessions> {
        let server = Arc::clone(&self.inner().hooks()?.server);
        server.downcast().ok().map(Sessions::new)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({} open)", self.count())
    }
}
