//! TCP keepalive: how a peer that vanished without a word is found.

use std::time::Duration;

use socket2::TcpKeepalive;

use crate::limits;

/// Asks after `quiet`, then five times at a fifth of that. The kernel counts whole seconds and leaves
/// parts out, so a peer that is gone is found after twice the time at most; and no fewer than one, so
/// it is found five seconds after a shorter time than that.
pub(crate) fn after(quiet: Duration) -> TcpKeepalive {
    let quiet = quiet.clamp(limits::KEEPALIVE_QUIET_MIN, limits::KEEPALIVE_QUIET_MAX);
    let interval = quiet / limits::KEEPALIVE_PROBES;
    TcpKeepalive::new()
        .with_time(quiet)
        .with_interval(interval.max(limits::KEEPALIVE_QUIET_MIN))
        .with_retries(limits::KEEPALIVE_PROBES)
}
