//! What one end of a connection is told when it is made.

use std::time::Duration;

use super::Settings;
use crate::limits::{
    NATIVE_INITIAL_CREDIT, NATIVE_PAYLOAD_MAX, NATIVE_PING_AFTER, NATIVE_PING_TIMEOUT,
    NATIVE_PREFACE_TIMEOUT, NATIVE_RESET_TIMEOUT, NATIVE_STALL_TIMEOUT, NATIVE_STREAMS,
    NATIVE_WINDOW_MAX,
};

/// Settings and patience of one end of a native connection.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::Config;
///
/// let mut config = Config::default();
/// config.settings.max_message = 16 << 20;
/// assert_eq!(config.settings.max_streams, 1_024);
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The settings of this end, announced to the peer.
    pub settings: Settings,
    /// Bytes to which the window of a stream may grow whose reader takes what comes, and whose peer
    /// would otherwise wait for credit. Windows that begin with as much or more stay as they are.
    pub window_max: u32,
    /// A connection on which nothing arrived for so long is probed with a PING.
    pub ping_after: Duration,
    /// A probed connection on which nothing arrives for so long is given up.
    pub ping_timeout: Duration,
    /// A cancelled call without its RESPONSE is given up, and the connection with it, after so
    /// long at least and twice as long at most.
    pub reset_timeout: Duration,
    /// A server ends a call of which nothing has come or gone for so long, though its request is not
    /// whole or its reply has not left. The call's own time, if it has one, ends it before.
    pub stall_timeout: Duration,
    /// The peer's preface and SETTINGS are waited for so long.
    pub preface_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let settings = Settings {
            max_payload: NATIVE_PAYLOAD_MAX,
            max_streams: NATIVE_STREAMS,
            initial_credit: NATIVE_INITIAL_CREDIT,
            ..Settings::default()
        };
        Self {
            settings,
            window_max: NATIVE_WINDOW_MAX,
            ping_after: NATIVE_PING_AFTER,
            ping_timeout: NATIVE_PING_TIMEOUT,
            reset_timeout: NATIVE_RESET_TIMEOUT,
            stall_timeout: NATIVE_STALL_TIMEOUT,
            preface_timeout: NATIVE_PREFACE_TIMEOUT,
        }
    }
}
