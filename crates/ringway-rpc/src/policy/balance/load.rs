//! What a policy is told: the hosts, and what is asked.

use std::time::Duration;

use super::latency::PeakEwma;
use crate::limits;

/// What the policies know of a host. The client keeps one beside each host of a target.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// At least 1.
    pub(crate) weight: u32,
    pub(crate) in_flight: u32,
    pub(crate) latency: PeakEwma,
    /// Neither ejected nor draining.
    pub(crate) available: bool,
    /// A hash of the host's address: its place on the ring.
    pub(crate) key: u64,
    /// When the host joined; it is given its full share only after a while.
    pub(crate) joined: Duration,
    /// The credit of smooth weighted round robin. It stays with the host when others come and go.
    pub(super) turn: i64,
}

impl Load {
    /// A host that joins now, believed to be as fast as `latency` says: the mean of the others.
    pub(crate) fn new(key: u64, weight: u32, latency: PeakEwma, now: Duration) -> Self {
        let weight = weight.max(1);
        Self { weight, in_flight: 0, latency, available: true, key, joined: now, turn: 0 }
    }

    /// What the policies compare: expected waiting, less for a heavier host, more for a new one.
    pub(super) fn cost(&self, now: Duration) -> f64 {
        let busy = f64::from(self.in_flight) + 1.0;
        let age = now.saturating_sub(self.joined).max(limits::HOST_RAMP / 10);
        let ramp = (limits::HOST_RAMP.as_secs_f64() / age.as_secs_f64()).max(1.0);
        self.latency.micros(now) * busy * ramp / f64::from(self.weight)
    }
}

/// What is asked of a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick<'a> {
    pub(crate) now: Duration,
    /// The call's key, for consistent hashing.
    pub(crate) key: Option<u64>,
    /// Hosts that the call has tried already.
    pub(crate) tried: &'a [usize],
}

impl Pick<'_> {
    pub(super) fn may_use(&self, hosts: &[Load], index: usize) -> bool {
        hosts.get(index).is_some_and(|host| host.available) && !self.tried.contains(&index)
    }
}
