//! The hooks that a server gives to its connections.

use std::any::Any;
use std::sync::Arc;

use ringway_runtime::sync::CancellationToken;

use crate::session::ConnectionId;

/// Ties connections to their server. All connections of one core share one of these.
pub(crate) struct ServerHooks {
    /// The core's place in its server.
    pub(crate) core: usize,
    /// Is cancelled when the server is asked to stop.
    pub(crate) draining: CancellationToken,
    /// Runs when a connection has lost its last owner.
    pub(crate) on_drop: Box<dyn Fn(ConnectionId)>,
    /// The server. Only its own code knows the type, so that a connection can be read without it.
    pub(crate) server: Arc<dyn Any + Send + Sync>,
}
