//! Whether to believe a list that has lost most of its hosts.
//!
//! A registry that has lost its data, or a broken filter in front of it, tells of an empty list, or of one that is much
//! shorter than the last. The hosts are still there then, so those that are missing stay in use until
//! - the source says the same again after [`limits::SHORT_LIST_HOLD`]; a list that is much shorter still has to be said
//!   again itself; or
//! - they cannot be reached: each host leaves when a connection to it fails.

use std::collections::HashSet;
use std::time::Instant;

use crate::client::hosts::Host;
use crate::client::server_address::ServerAddress;
use crate::limits;

#[derive(Default)]
pub(super) struct ListGuard {
    /// What the source has told last.
    told: Vec<Host>,
    /// Hosts of former lists that are missing in it, and stay in use.
    kept: Vec<Host>,
    /// When the first short list has come, if hosts are kept.
    since: Option<Instant>,
}

impl ListGuard {
    /// Takes a list of different hosts, which the source may have confirmed already. Returns whether missing ones are kept.
    pub(super) fn offer(&mut self, list: Vec<Host>, now: Instant, is_confirmed: bool) -> bool {
        let in_use = self.told.len() + self.kept.len();
        let is_short = is_short_of(list.len(), in_use);
        if is_short_of(list.len(), self.told.len()) {
            self.since = None; // what was told before, if that was short too, does not confirm this
        }
        let is_confirmed = is_confirmed
            || self.since.is_some_and(|since| now.duration_since(since) >= limits::SHORT_LIST_HOLD);
        if is_short && !is_confirmed {
            let listed: HashSet<_> = list.iter().map(|host| &host.address).collect();
            let mut kept = std::mem::take(&mut self.kept);
            kept.append(&mut self.told);
            kept.retain(|host| !listed.contains(&host.address));
            self.kept = kept;
        } else {
            self.kept.clear();
        }
        self.told = list;
        self.settle(now);
        self.is_keeping()
    }

    /// Notes that a host cannot be reached. Returns whether it leaves the list.
    pub(super) fn unreachable(&mut self, address: &ServerAddress, now: Instant) -> bool {
        let before = self.kept.len();
        self.kept.retain(|host| host.address != *address);
        self.settle(now);
        self.kept.len() < before
    }

    /// Whether hosts are in use that the source does not list.
    pub(super) fn is_keeping(&self) -> bool {
        !self.kept.is_empty()
    }

    /// The hosts in use.
    pub(super) fn hosts(&self) -> Vec<Host> {
        self.told.iter().chain(&self.kept).cloned().collect()
    }

    fn settle(&mut self, now: Instant) {
        self.since = self.is_keeping().then(|| self.since.unwrap_or(now));
    }
}

/// Whether a list of so many hosts has lost more than half of those that there were, or all.
fn is_short_of(listed: usize, before: usize) -> bool {
    before > 0 && (listed == 0 || listed * 2 < before)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn hosts(numbers: &[u16]) -> Vec<Host> {
        numbers.iter().map(|at| Host::new(format!("tcp://a:{at}")).expect("an address")).collect()
    }

    fn in_use(guard: &ListGuard) -> Vec<u16> {
        let port = |host: Host| {
            let address = host.address.to_string();
            address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
        };
        let mut ports: Vec<u16> = guard.hosts().into_iter().map(port).collect();
        ports.sort_unstable();
        ports
    }

    #[test]
    fn short_lists_are_kept_away_until_they_are_confirmed() {
        let start = Instant::now();
        // Each list with the second at which it comes, and what is in use then.
        for steps in [
            &[(0, &[1, 2, 3, 4][..], &[1, 2, 3, 4][..]), (1, &[1, 2], &[1, 2])][..],
            &[
                (0, &[1, 2, 3], &[1, 2, 3]),
                (1, &[1], &[1, 2, 3]),
                (2, &[1], &[1, 2, 3]),
                (3, &[1], &[1]),
            ],
            &[(0, &[1], &[1]), (1, &[], &[1]), (2, &[], &[1]), (3, &[], &[])],
            &[(0, &[1, 2, 3], &[1, 2, 3]), (1, &[], &[1, 2, 3]), (2, &[1, 2], &[1, 2])],
            // New hosts are used at once, and the wait begins anew after a good list.
            &[(0, &[1, 2, 3], &[1, 2, 3]), (1, &[4], &[1, 2, 3, 4]), (2, &[1, 2, 4], &[1, 2, 4])],
            &[(0, &[1], &[1]), (1, &[], &[1]), (2, &[1], &[1]), (4, &[], &[1]), (6, &[], &[])],
            &[(0, &[], &[]), (0, &[1, 2], &[1, 2])],
            // A short list is no confirmation of one that is much shorter still.
            &[
                (0, &[1, 2, 3], &[1, 2, 3]),
                (1, &[1], &[1, 2, 3]),
                (4, &[], &[1, 2, 3]),
                (6, &[], &[]),
            ],
        ] {
            let mut guard = ListGuard::default();
            for &(second, list, used) in steps {
                let keeps = guard.offer(hosts(list), start + Duration::from_secs(second), false);
                assert_eq!(in_use(&guard), used, "{list:?} of {steps:?}");
                assert_eq!(keeps, used.len() > list.len(), "{list:?} of {steps:?}");
            }
        }
    }

    #[test]
    fn a_short_list_that_was_confirmed_elsewhere_is_not_held_again() {
        let now = Instant::now();
        let mut guard = ListGuard::default();
        guard.offer(hosts(&[1, 2, 3]), now, false);
        assert!(!guard.offer(hosts(&[3]), now, true));
        assert_eq!(in_use(&guard), [3]);
    }

    #[test]
    fn kept_hosts_leave_when_they_cannot_be_reached() {
        let now = Instant::now();
        let mut guard = ListGuard::default();
        guard.offer(hosts(&[1, 2, 3]), now, false);
        let [first, second, third] = &hosts(&[1, 2, 3])[..] else { panic!("three hosts") };
        assert!(!guard.unreachable(&second.address, now), "it is listed");
        guard.offer(hosts(&[3]), now, false);
        assert!(guard.unreachable(&second.address, now));
        assert!(!guard.unreachable(&third.address, now), "it is listed");
        assert_eq!((in_use(&guard), guard.is_keeping()), (vec![1, 3], true));
        assert!(guard.unreachable(&first.address, now));
        assert_eq!((in_use(&guard), guard.is_keeping()), (vec![3], false));
    }
}
