//! Which of the hosts in a list a client calls, and which of them are near.

use std::cmp::Reverse;
use std::sync::Arc;

use ringway_runtime::contain;

use super::hosts::{Host, HostStatus};
use crate::limits;
use crate::policy::balance::hash_of;

/// A user's choice of hosts.
type Filter = Arc<dyn Fn(&Host) -> bool + Send + Sync>;

/// The rules by which a client chooses among the hosts of a list.
#[derive(Clone)]
pub(super) struct HostRules {
    /// The client's zone; empty if it has none.
    pub(super) zone: String,
    pub(super) filter: Option<Filter>,
    /// The number of hosts that are called at most.
    pub(super) subset: usize,
    /// Decides which hosts belong to the subset.
    pub(super) seed: u64,
}

/// A host that is called.
pub(super) struct ChosenHost {
    pub(super) host: Host,
    /// Whether it is in the client's zone, or if none is, whether it is called at all.
    pub(super) is_near: bool,
}

impl HostRules {
    pub(super) fn new() -> Self {
        let (subset, seed) = (limits::HOSTS_MAX, fastrand::u64(..));
        Self { zone: String::new(), filter: None, subset, seed }
    }

    /// Chooses from a list of different hosts, whose order stays.
    pub(super) fn choose(&self, mut list: Vec<Host>) -> Vec<ChosenHost> {
        if let Some(filter) = &self.filter {
            // A filter that panics does not leave the client without hosts.
            list.retain(|host| contain("a filter of hosts", || filter(host)).unwrap_or(true));
        }
        let is_serving = |host: &Host| host.status == HostStatus::Serving;
        match list.iter().any(is_serving) {
            true => list.retain(is_serving),
            // A source that takes every host for unavailable is more likely wrong than right.
            false => list.retain(|host| host.status == HostStatus::Unavailable),
        }
        let is_here = |host: &Host| !self.zone.is_empty() && host.about.zone == self.zone;
        let none_is_here = !list.iter().any(is_here);
        let chosen = |host| ChosenHost { is_near: none_is_here || is_here(&host), host };
        let mut chosen: Vec<_> = list.into_iter().map(chosen).collect();
        if chosen.len() > self.subset {
            self.take_subset(&mut chosen);
        }
        chosen
    }

    /// Keeps the hosts with the highest ranks. A rank depends on the client's seed and the host's address only
    /// (rendezvous hashing), so that a host which comes or goes moves at most one other, and clients spread evenly.
    fn take_subset(&self, chosen: &mut Vec<ChosenHost>) {
        let ranks = chosen.iter().map(|it| hash_of(&(self.seed, it.host.address.to_string())));
        let mut ranked: Vec<(bool, u64, usize)> = chosen
            .iter()
            .zip(ranks)
            .enumerate()
            .map(|(at, (chosen, rank))| (chosen.is_near, rank, at))
            .collect();
        ranked.sort_unstable_by_key(|&ranked| Reverse(ranked));
        let near = ranked.partition_point(|&(is_near, ..)| is_near);
        // A quarter is for other zones, in case the client's own one is lost.
        let of_near = near.min(self.subset - (ranked.len() - near).min(self.subset / 4));
        let mut kept = vec![false; chosen.len()];
        let (near, far) = ranked.split_at(near);
        for &(.., at) in
            near[..of_near].iter().chain(&far[..(self.subset - of_near).min(far.len())])
        {
            kept[at] = true;
        }
        let mut kept = kept.into_iter();
        chosen.retain(|_| kept.next().unwrap_or(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: usize) -> Host {
        Host::new(format!("tcp://10.0.{}.{}:1", number / 256, number % 256)).expect("an address")
    }

    fn rules() -> HostRules {
        HostRules { seed: 7, ..HostRules::new() }
    }

    /// The numbers of the chosen hosts, those that are not near negative.
    fn chosen(rules: &HostRules, hosts: &[Host]) -> Vec<i32> {
        let number = |it: ChosenHost| {
            let at = hosts.iter().position(|host| *host == it.host).expect("one of the list");
            let at = i32::try_from(at).expect("a few");
            if it.is_near { at } else { -at }
        };
        rules.choose(hosts.to_vec()).into_iter().map(number).collect()
    }

    #[test]
    fn draining_hosts_are_never_called_and_unavailable_ones_only_instead_of_none() {
        use HostStatus::{Draining, Serving, Unavailable};
        for (statuses, called) in [
            ([Serving, Draining, Unavailable], &[0][..]),
            ([Unavailable, Draining, Unavailable], &[0, 2]),
            ([Draining, Draining, Draining], &[]),
        ] {
            let hosts = [0, 1, 2].map(|at| host(at).status(statuses[at]));
            assert_eq!(chosen(&rules(), &hosts), called, "{statuses:?}");
        }
    }

    #[test]
    fn hosts_of_the_clients_zone_are_near_and_all_are_if_there_are_none() {
        let hosts = [host(0).zone("a"), host(1).zone("b"), host(2)];
        let of = |zone: &str| chosen(&HostRules { zone: zone.into(), ..rules() }, &hosts);
        assert_eq!(of("a"), [0, -1, -2]);
        assert_eq!((of("c"), of("")), (vec![0, 1, 2], vec![0, 1, 2]));
    }

    #[test]
    fn a_filter_sees_hosts_and_its_panic_keeps_them() {
        let hosts = [host(0).version("1"), host(1).version("2"), host(2).version("?")];
        let filter = |host: &Host| host.version_of().parse::<u32>().expect("a number") > 1;
        let rules = HostRules { filter: Some(Arc::new(filter)), ..rules() };
        assert_eq!(chosen(&rules, &hosts), [1, 2]);
    }

    #[test]
    fn a_subset_is_the_same_each_time_and_moves_little() {
        let hosts: Vec<_> = (0..1_000).map(host).collect();
        let rules = HostRules { subset: 20, ..rules() };
        let first = chosen(&rules, &hosts);
        assert_eq!(first.len(), 20);
        let reversed: Vec<_> = hosts.iter().rev().cloned().collect();
        let mut again: Vec<_> = chosen(&rules, &reversed).iter().map(|at| 999 - at).collect();
        again.sort_unstable();
        assert_eq!(again, first);
        let gone = usize::try_from(first[3]).expect("a place");
        let fewer: Vec<_> = hosts.iter().filter(|it| **it != hosts[gone]).cloned().collect();
        let now: Vec<_> = rules.choose(fewer).into_iter().map(|it| it.host).collect();
        let stays = |at: &&i32| now.contains(&hosts[usize::try_from(**at).expect("a place")]);
        assert_eq!(first.iter().filter(stays).count(), 19);
    }

    #[test]
    fn subsets_of_many_clients_spread_evenly() {
        let hosts: Vec<_> = (0..100).map(host).collect();
        let mut counts = [0; 100];
        for seed in 0..1_000 {
            let rules = HostRules { subset: 10, seed, ..rules() };
            chosen(&rules, &hosts)
                .iter()
                .for_each(|at| counts[usize::try_from(*at).expect("a place")] += 1);
        }
        // 100 on average; seven standard deviations are 66.
        assert!(counts.iter().all(|count| (34..=166).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_subset_has_hosts_of_the_own_zone_and_some_of_others() {
        let zone = |at: usize| if at < 50 { "a" } else { "b" };
        let hosts: Vec<_> = (0..100).map(|at| host(at).zone(zone(at))).collect();
        let rules = HostRules { subset: 20, zone: "a".into(), ..rules() };
        let near = chosen(&rules, &hosts).into_iter().filter(|at| *at < 50 && *at >= 0).count();
        assert_eq!(near, 15);
    }
}
