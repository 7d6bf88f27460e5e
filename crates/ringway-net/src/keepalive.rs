//! TCP keepalive: finds peers that vanished without closing.

use std::time::Duration;

use socket2::TcpKeepalive;

use crate::limits;

/// Probes after `quiet`, then five times at intervals of a fifth of it, so a vanished peer is found
/// after at most twice `quiet`. The kernel counts whole seconds, at least one: below five seconds
/// of `quiet` the probes take five seconds.
pub(crate) fn after(quiet: Duration) -> TcpKeepalive {
    let quiet = quiet.clamp(limits::KEEPALIVE_QUIET_MIN, limits::KEEPALIVE_QUIET_MAX);
    let interval = quiet / limits::KEEPALIVE_PROBES;
    TcpKeepalive::new()
        .with_time(quiet)
        .with_interval(interval.max(limits::KEEPALIVE_QUIET_MIN))
        .with_retries(limits::KEEPALIVE_PROBES)
}
