//! The hooks that a server gives to its connections.

use std::any::Any;
use std::sync::Arc;

use ringway_runtime::sync::CancellationToken;

use crate::session::ConnectionId;

/// Ties connections to their server. All connections of one core share one value.
pub(crate) struct ServerHooks {
    /// The core's number in its server.
    pub(crate) core: usize,
    /// Cancelled when the server drains, after its drain delay.
    pub(crate) draining: CancellationToken,
    /// Runs when the last owner of a connection has dropped it.
    pub(crate) on_drop: Box<dyn Fn(ConnectionId)>,
    /// The server, as `Any`: only the server's own code knows the type, so this module does not
    /// depend on it.
    pub(crate) server: Arc<dyn Any + Send + Sync>,
}
