//! The shares of hosts in calls that are made while the hosts are being connected to.

use super::load::Load;

/// Divides the calls that wait for the first connections of a client over its hosts, in proportion to
/// their weights. Without it, the host whose connection opens first would get them all, and whichever a
/// client tries first would get the first call of every new client.
///
/// The calls are laid evenly along the weights of all hosts, from a point on that differs from client to
/// client, so that a single call goes to any host.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The point at which the first call lies, in parts of 2⁶⁴ of all weights.
    phase: u64,
    /// The calls that each host has got.
    sent: Vec<u64>,
}

impl Opening {
    /// Begins without calls; `phase` is any number.
    pub(crate) fn new(phase: u64, hosts: usize) -> Self {
        Self { phase, sent: vec![0; hosts] }
    }

    /// Counts a call that was sent to a host.
    pub(crate) fn sent(&mut self, host: usize) {
        self.sent[host] += 1;
    }

    /// How many of the `waiting` calls each host is to get now, if it has room. Those that are not `live`,
    /// neither connected to nor being connected to, get none, and the others share theirs.
    pub(crate) fn shares(&self, hosts: &[Load], live: &[bool], waiting: usize) -> Vec<usize> {
        let lives = || (0..hosts.len()).filter(|&host| live[host]);
        let weights: u128 = lives().map(|host| u128::from(hosts[host].weight)).sum();
        let sent: u64 = lives().map(|host| self.sent[host]).sum();
        let calls = u128::from(sent) + waiting as u128;
        let first = (u128::from(self.phase) * weights) >> 64;
        let mut shares = vec![0; hosts.len()];
        let (mut weight, mut before) = (0, 0);
        for host in lives() {
            weight += u128::from(hosts[host].weight);
            let until = (calls * weight + first) / weights;
            let share = until - before - u128::from(self.sent[host]).min(until - before);
            shares[host] = usize::try_from(share).unwrap_or(usize::MAX);
            before = until;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits;
    use crate::policy::balance::PeakEwma;

    fn hosts(weights: &[u32]) -> Vec<Load> {
        let load = |&weight| Load::new(1, weight, PeakEwma::default(), Duration::ZERO);
        weights.iter().map(load).collect()
    }

    #[test]
    fn many_calls_are_shared_by_weight_whatever_the_phase() {
        for phase in (0..50).map(|step: u64| step.wrapping_mul(limits::GOLDEN_STEP)) {
            let shares = |weights: &[u32], waiting| {
                let live = vec![true; weights.len()];
                Opening::new(phase, weights.len()).shares(&hosts(weights), &live, waiting)
            };
            assert_eq!(shares(&[1, 1, 1], 300), [100, 100, 100]);
            assert_eq!(shares(&[5, 1, 1], 70), [50, 10, 10]);
            let odd = shares(&[1, 1, 1], 301);
            assert!(odd.iter().all(|share| [100, 101].contains(share)), "{odd:?}");
            assert_eq!(odd.iter().sum::<usize>(), 301);
        }
    }

    #[test]
    fn single_calls_of_many_clients_are_shared_by_weight() {
        for weights in [vec![1, 1, 1], vec![3, 2, 1]] {
            let (hosts, live) = (hosts(&weights), vec![true; weights.len()]);
            let mut got = vec![0; weights.len()];
            for client in 0..60_u64 {
                let phase = 77_u64.wrapping_add(client.wrapping_mul(limits::GOLDEN_STEP));
                let shares = Opening::new(phase, hosts.len()).shares(&hosts, &live, 1);
                assert_eq!(shares.iter().sum::<usize>(), 1);
                shares.iter().zip(&mut got).for_each(|(share, got)| *got += share);
            }
            let all: u32 = weights.iter().sum();
            for (got, weight) in got.iter().zip(&weights) {
                assert!(got.abs_diff((60 * weight / all) as usize) <= 2, "{got} of {weights:?}");
            }
        }
    }

    #[test]
    fn what_was_sent_counts_and_the_share_of_a_host_that_fails_is_shared() {
        let (hosts, mut opening) = (hosts(&[1, 1, 1]), Opening::new(0, 3));
        let mut shares = |waiting, live: [bool; 3], sent: [usize; 3]| {
            for (host, sent) in sent.into_iter().enumerate() {
                (0..sent).for_each(|_| opening.sent(host));
            }
            opening.shares(&hosts, &live, waiting)
        };
        assert_eq!(shares(200, [true; 3], [100, 0, 0]), [0, 100, 100]);
        assert_eq!(shares(200, [true, true, false], [0; 3]), [50, 150, 0]);
        assert_eq!(shares(50, [true, true, false], [0, 150, 0]), [50, 0, 0]);
        assert_eq!(shares(9, [false; 3], [0; 3]), [0, 0, 0]);
    }
}
