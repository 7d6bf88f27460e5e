//! Which host a call goes to.
//!
//! Every policy honours the weights of the hosts: of two that do equally well, one with three times
//! the weight of the other gets three times as many calls. Round robin does so exactly, over as many
//! calls as the weights add up to; the others in the long run.

mod latency;
mod load;
mod p2c;
mod ring;
mod round_robin;

pub(crate) use latency::PeakEwma;
pub(crate) use load::{Load, Pick};
pub(crate) use ring::hash_of;

use self::ring::Ring;

/// Load balancing: spreads a client's calls over its hosts, in proportion to their
/// [weights](crate::ClientBuilder::weighted_address).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Of four hosts taken at random, the one with the least product of latency and calls in
    /// flight, divided by its weight. The latency jumps up with a slow reply and comes down slowly.
    #[default]
    PeakEwma,
    /// One host after the other, each as often as its weight says, evenly mixed.
    RoundRobin,
    /// Any host, as likely as its weight says.
    Random,
    /// The host that owns the call's key, so that equal keys meet the same host, which is waited for
    /// while it is being connected to. One that cannot be reached, or that carries a quarter more
    /// calls than its share and at least 16, passes a key on to the next. A heavier host owns more
    /// keys. Calls without a key are spread at random.
    ConsistentHash,
}

impl Policy {
    /// Whether calls with a key belong to one host each.
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
    /// The same seed makes the same choices.
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { policy, random, ring: Ring::default() }
    }

    /// To be told after hosts were added or removed.
    pub(crate) fn hosts_changed(&mut self, hosts: &[Load]) {
        if self.policy.has_owners() {
            self.ring = Ring::new(hosts);
        }
    }

    /// The index of the host to use; `None` when none is available that was not tried.
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
