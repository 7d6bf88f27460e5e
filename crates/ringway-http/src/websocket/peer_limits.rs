//! Bounds of what the other end of a WebSocket may do.

use std::time::Duration;

use crate::limits;

/// What the other end of a WebSocket may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WebSocketLimits {
    /// Bytes of a message that is received, all of its fragments; 1 MiB unless it is set. Longer ones cost
    /// their sender the connection, with the close code 1009.
    pub message_bytes_max: usize,
    /// How long the peer may be silent before it is sent a ping; 30 s unless it is set, `None` for ever.
    pub ping_after: Option<Duration>,
    /// How long it then has to send something, be it a pong, before it counts as gone; 20 s unless it is set.
    pub pong_wait: Duration,
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            ping_after: Some(limits::PING_AFTER),
            pong_wait: limits::PONG_WAIT,
        }
    }
}
