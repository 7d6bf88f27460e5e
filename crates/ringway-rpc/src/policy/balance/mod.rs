//! Load balancing: the choice of a host for each call.
//!
//! Every policy respects the weights: of two hosts that perform equally, one with three times the
//! weight gets three times as many calls. Round robin does so exactly, over as many calls as the
//! sum of the weights; the others do so in the long run.

mod latency;
mod load;
mod opening;
mod p2c;
mod ring;
mod round_robin;

use std::time::Duration;

pub(crate) use latency::PeakEwma;
pub(crate) use load::{Load, Pick};
pub(crate) use opening::Opening;
pub(crate) use ring::hash_of;

use self::ring::Ring;
use crate::limits;

/// Load balancing: spreads a client's calls over its hosts, in proportion to their
/// [weights](crate::ClientBuilder::weighted_address).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Picks the best of four random hosts: the one with the least product of latency and calls in
    /// flight, divided by its weight. The latency jumps up with a slow reply and decays slowly.
    #[default]
    PeakEwma,
    /// Picks the hosts in turn, each as often as its weight, evenly mixed.
    RoundRobin,
    /// Picks a random host, with a probability in proportion to its weight.
    Random,
    /// Picks the host that owns the call's key, so that equal keys go to the same host; a call
    /// waits while that host is being connected to. If the owner cannot be reached, or carries at
    /// least 16 calls and a quarter more than its share, the next host gets the call. A heavier
    /// host owns more keys. Calls without a key go to random hosts.
    ConsistentHash,
}

impl Policy {
    /// Whether a call with a key belongs to a certain host.
    pub(crate) fn has_owners(self) -> bool {
        self == Self::ConsistentHash
    }
}

/// A policy with its state, for the hosts of one target.
pub(crate) struct Balancer {
    policy: Policy,
    random: fastrand::Rng,
    ring: Ring,
}

impl Balancer {
    /// Makes a balancer; the same seed gives the same choices.
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { policy, random, ring: Ring::default() }
    }

    /// Begins the round of round robin at the `phase`, in parts of 2⁶⁴ of the round: the first of equal hosts
    /// would get the first call of every client.
    pub(crate) fn begin_at(&mut self, phase: u64, hosts: &mut [Load]) {
        if self.policy == Policy::RoundRobin {
            let round: u64 = hosts.iter().map(|host| u64::from(host.weight)).sum();
            let round = u128::from(round.min(limits::ROUND_BEGUN_MAX));
            let ask = Pick { now: Duration::ZERO, key: None, tried: &[] };
            for _ in 0..(u128::from(phase) * round) >> 64 {
                round_robin::pick(hosts, ask);
            }
        }
    }

    /// Updates the state after hosts were added or removed.
    pub(crate) fn hosts_changed(&mut self, hosts: &[Load]) {
        if self.policy.has_owners() {
            self.ring = Ring::new(hosts);
        }
    }

    /// Returns the index of the host to use; `None` if every available host was tried.
    pub(crate) fn pick(&mut self, hosts: &mut [Load], pick: Pick<'_>) -> Option<usize> {
        if let [host] = hosts {
            return (host.available && pick.tried.is_empty()).then_some(0);
        }
        match self.policy {
            Policy::PeakEwma => p2c::pick(hosts, pick, &mut self.random),
            Policy::RoundRobin => round_robin::pick(hosts, pick),
            Policy::Random => self.any(hosts, pick),
            Policy::ConsistentHash => match pick.key {
                Some(key) => self.ring.pick(hosts, pick, key),
                None => self.any(hosts, pick),
            },
        }
    }

    fn any(&mut self, hosts: &[Load], pick: Pick<'_>) -> Option<usize> {
        let usable = || (0..hosts.len()).filter(|&i| pick.may_use(hosts, i));
        let total: u64 = usable().map(|i| u64::from(hosts[i].weight)).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.random.u64(..total);
        usable().find(|&i| {
            let weight = u64::from(hosts[i].weight);
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        })
    }
}

#[cfg(test)]
mod tests;
