//! What an endpoint accepts, and how long it waits.

use std::time::Duration;

use super::settings::FRAME_DEFAULT;
use crate::limits::{
    HTTP2_CLIENT_PING_AFTER, HTTP2_HANDSHAKE_TIMEOUT, HTTP2_HEADER_LIST, HTTP2_INITIAL_WINDOW,
    HTTP2_PING_AFTER, HTTP2_PING_TIMEOUT, HTTP2_STALL_TIMEOUT, HTTP2_STREAMS, HTTP2_WINDOW_MAX,
};

/// PeerSettings of one end of a connection. The default suits most services.
#[derive(Debug, Clone)]
pub struct Http2Config {
    /// Streams that a client may have open at a time.
    pub max_streams: u32,
    /// Bytes that a stream may bring before the reader has taken some.
    pub initial_window: u32,
    /// Bytes to which such a window grows where the path makes use of it.
    pub window_max: u32,
    /// Bytes of the longest frame that is accepted: 16 KiB to 16 MiB.
    pub max_frame: u32,
    /// Bytes of the fields of a message, counted with 32 for each.
    pub max_header_list: u32,
    /// A connection on which nothing was heard so long is probed.
    pub ping_after: Duration,
    /// It is given up when nothing is heard so long after that.
    pub ping_timeout: Duration,
    /// The peer's preface and SETTINGS must have come so long after the connection was made.
    pub handshake_timeout: Duration,
    /// A stream is given up when its peer lets nothing of it leave for so long.
    pub stall_timeout: Duration,
}

impl Http2Config {
    /// The default of a client: it probes a silent server less often, since servers of gRPC take one
    /// PING in five minutes and go away after some more.
    #[must_use]
    pub fn client() -> Self {
        Self { ping_after: HTTP2_CLIENT_PING_AFTER, ..Self::default() }
    }
}

impl Default for Http2Config {
    fn default() -> Self {
        Self {
            max_streams: HTTP2_STREAMS,
            initial_window: HTTP2_INITIAL_WINDOW,
            window_max: HTTP2_WINDOW_MAX,
            max_frame: FRAME_DEFAULT,
            max_header_list: HTTP2_HEADER_LIST,
            ping_after: HTTP2_PING_AFTER,
            ping_timeout: HTTP2_PING_TIMEOUT,
            handshake_timeout: HTTP2_HANDSHAKE_TIMEOUT,
            stall_timeout: HTTP2_STALL_TIMEOUT,
        }
    }
}
