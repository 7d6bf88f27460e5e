//! Configuration of one end of a connection.

use std::time::Duration;

use super::Settings;
use crate::limits::{
    NATIVE_INITIAL_CREDIT, NATIVE_PAYLOAD_MAX, NATIVE_PING_AFTER, NATIVE_PING_TIMEOUT,
    NATIVE_PREFACE_TIMEOUT, NATIVE_RESET_TIMEOUT, NATIVE_STALL_TIMEOUT, NATIVE_STREAMS,
    NATIVE_WINDOW_MAX,
};

/// Settings, timeouts and window limit of one end of a native connection.
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
    /// Settings of this end, which are announced to the peer.
    pub settings: Settings,
    /// Largest size, in bytes, to which a stream's window may grow if its reader keeps up and its
    /// peer would otherwise wait for credit. Windows that start at this size or above stay as they
    /// are.
    pub window_max: u32,
    /// A PING is sent after this time without input, and at least 20 ms.
    pub ping_after: Duration,
    /// The connection fails when no input arrives for this time after a PING.
    pub ping_timeout: Duration,
    /// The connection fails when the RESPONSE to a cancelled call does not arrive within this time,
    /// or within twice this time at most.
    pub reset_timeout: Duration,
    /// A server ends a call after this time without progress while its request is incomplete or its
    /// reply is unsent. The call's own timeout, if shorter, ends it earlier.
    pub stall_timeout: Duration,
    /// The peer's preface and SETTINGS must arrive within this time.
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
