//! TCP keepalive: how a peer that vanished without a word is found.

use std::time::Duration;

use socket2::TcpKeepalive;

use crate::limits;

/// Asks after `quiet`, then at a fraction of that: a peer that is gone is found after twice the
/// time. The kernel counts in whole seconds.
pub(crate) fn after(quiet: Duration) -> TcpKeepalive {
    let quiet = quiet.clamp(limits::KEEPALIVE_QUIET_MIN, limits::KEEPALIVE_QUIET_MAX);
    let interval = quiet / limits::KEEPALIVE_PROBES;
    TcpKeepalive::new()
        .with_time(quiet)
        .with_interval(interval.max(limits::KEEPALIVE_QUIET_MIN))
        .with_retries(limits::KEEPALIVE_PROBES)
}
