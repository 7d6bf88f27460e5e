//! The settings of a connection to a server of JSON-RPC.

use std::time::Duration;

use ringway_wire::native::Config;

use crate::limits;

/// The bounds and times of a connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct JsonClientConfig {
    /// Bytes of the longest text.
    pub(in crate::client) text_max: usize,
    pub(in crate::client) ping_after: Duration,
    pub(in crate::client) ping_timeout: Duration,
}

impl JsonClientConfig {
    /// The settings that all protocols share.
    pub(in crate::client) fn of(native: &Config) -> Self {
        Self {
            text_max: native.settings.max_message as usize + limits::JSONRPC_ENVELOPE_BYTES,
            ping_after: native.ping_after,
            ping_timeout: native.ping_timeout,
        }
    }
}
