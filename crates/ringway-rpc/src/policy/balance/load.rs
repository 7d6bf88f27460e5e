//! The inputs of a balancing policy: the hosts and the call.

use std::time::Duration;

use super::latency::PeakEwma;
use crate::limits;

/// The load of a host as the policies see it. The client keeps one for each host of a target.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The weight of the host, at least 1.
    pub(crate) weight: u32,
    pub(crate) in_flight: u32,
    pub(crate) latency: PeakEwma,
    /// Whether the host is neither ejected nor draining.
    pub(crate) available: bool,
    /// A hash of the host's address, which determines its points on the ring.
    pub(crate) key: u64,
    /// When the host was added; its share ramps up from then.
    pub(crate) joined: Duration,
    /// The credit of smooth weighted round robin. It stays with the host when others are added or
    /// removed.
    pub(super) turn: i64,
}

impl Load {
    /// Makes the load of a new host; `latency` is its starting value, the mean of the others.
    pub(crate) fn new(key: u64, weight: u32, latency: PeakEwma, now: Duration) -> Self {
        let weight = weight.max(1);
        Self { weight, in_flight: 0, latency, available: true, key, joined: now, turn: 0 }
    }

    /// Returns the cost that the policies compare: the expected waiting time, lower for a heavier
    /// host, higher for a new one.
    pub(super) fn cost(&self, now: Duration) -> f64 {
        let busy = f64::from(self.in_flight) + 1.0;
        let age = now.saturating_sub(self.joined).max(limits::HOST_RAMP / 10);
        let ramp = (limits::HOST_RAMP.as_secs_f64() / age.as_secs_f64()).max(1.0);
        self.latency.micros(now) * busy * ramp / f64::from(self.weight)
    }
}

/// The call that a policy picks a host for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick<'a> {
    pub(crate) now: Duration,
    /// The call's key, for consistent hashing.
    pub(crate) key: Option<u64>,
    /// Hosts that the call has already tried.
    pub(crate) tried: &'a [usize],
}

impl Pick<'_> {
    pub(super) fn may_use(&self, hosts: &[Load], index: usize) -> bool {
        hosts.get(index).is_some_and(|host| host.available) && !self.tried.contains(&index)
    }
}
