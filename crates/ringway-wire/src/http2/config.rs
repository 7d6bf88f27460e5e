//! Configuration of one end of a connection.

use std::sync::Arc;
use std::time::Duration;

use super::frames::MAX_31;
use super::settings::{FRAME_DEFAULT, FRAME_MAX, WINDOW_DEFAULT};

use crate::limits::{
    HTTP2_CLIENT_PING_AFTER, HTTP2_FRAME_MAX, HTTP2_HANDSHAKE_TIMEOUT, HTTP2_HEADER_LIST,
    HTTP2_INITIAL_WINDOW, HTTP2_PING_AFTER, HTTP2_PING_TIMEOUT, HTTP2_STALL_TIMEOUT, HTTP2_STREAMS,
    HTTP2_WINDOW_MAX, PING_AFTER_MIN,
};

/// Configuration of one end of a connection. The default suits most services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http2Config {
    /// Streams that a client may have open at the same time.
    pub max_streams: u32,
    /// Initial window of a stream: bytes that it may receive before the reader takes some.
    pub initial_window: u32,
    /// Largest size, in bytes, to which a stream's window may grow if the path makes use of it.
    pub window_max: u32,
    /// Largest frame that is accepted, in bytes: 16 KiB to 16 MiB.
    pub max_frame: u32,
    /// Largest header list of a message in bytes, with 32 added for each field.
    pub max_header_list: u32,
    /// A PING is sent after this time without input, and at least 20 ms.
    pub ping_after: Duration,
    /// Whether PINGs are also sent while no stream is open.
    pub pings_idle: bool,
    /// The connection fails when no input arrives for this time after a PING.
    pub ping_timeout: Duration,
    /// The peer's preface and SETTINGS must arrive within this time.
    pub handshake_timeout: Duration,
    /// A stream is reset when its peer accepts none of its queued data for this time.
    pub stall_timeout: Duration,
}

impl Http2Config {
    /// The default for clients: they send PINGs less often, and only while a stream is open. gRPC
    /// servers accept one in five minutes, without streams one in two hours, and close the connection
    /// after a few more.
    #[must_use]
    pub fn client() -> Self {
        Self { ping_after: HTTP2_CLIENT_PING_AFTER, pings_idle: false, ..Self::default() }
    }
}

impl Http2Config {
    /// The nearest configuration that the protocol allows.
    pub(super) fn within_bounds(config: Arc<Self>) -> Arc<Self> {
        let max_frame = config.max_frame.clamp(FRAME_DEFAULT, FRAME_MAX);
        let initial_window = config.initial_window.clamp(WINDOW_DEFAULT, MAX_31);
        let window_max = config.window_max.clamp(initial_window, MAX_31);
        let ping_after = config.ping_after.max(PING_AFTER_MIN);
        let allowed =
            Self { max_frame, initial_window, window_max, ping_after, ..Self::clone(&config) };
        if allowed == *config {
            return config; // the connections of a server share it
        }
        Arc::new(allowed)
    }
}

impl Default for Http2Config {
    fn default() -> Self {
        Self {
            max_streams: HTTP2_STREAMS,
            initial_window: HTTP2_INITIAL_WINDOW,
            window_max: HTTP2_WINDOW_MAX,
            max_frame: HTTP2_FRAME_MAX,
            max_header_list: HTTP2_HEADER_LIST,
            ping_after: HTTP2_PING_AFTER,
            pings_idle: true,
            ping_timeout: HTTP2_PING_TIMEOUT,
            handshake_timeout: HTTP2_HANDSHAKE_TIMEOUT,
            stall_timeout: HTTP2_STALL_TIMEOUT,
        }
    }
}
