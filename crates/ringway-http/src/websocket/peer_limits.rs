//! Limits on the peer of a WebSocket.

use std::time::Duration;

use crate::limits;

/// Limits on the peer of a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WebSocketLimits {
    /// Longest message accepted, all of its fragments together; 1 MiB if not set. A longer message closes the
    /// connection with the code 1009.
    pub message_bytes_max: usize,
    /// Silence of the peer after which it is sent a ping; 30 s if not set, `None` for no pings.
    pub ping_after: Option<Duration>,
    /// Time within which it must then send something, such as a pong; 20 s if not set. After it, the peer counts as dead.
    pub pong_wait: Duration,
    /// Whether messages are compressed if the peer agrees (permessage-deflate, RFC 7692); off if not set, and in
    /// builds without the feature `compression`. Each message is compressed by itself, so an idle connection
    /// keeps no memory for it. `message_bytes_max` holds for what a message contains.
    pub permessage_deflate: bool,
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            ping_after: Some(limits::PING_AFTER),
            pong_wait: limits::PONG_WAIT,
            permessage_deflate: false,
        }
    }
}
