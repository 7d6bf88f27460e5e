use std::collections::HashMap;
use std::time::Duration;

use crate::limits;
use crate::policy::balance::*;

const MS: Duration = Duration::from_millis(1);
/// A time long after the hosts have joined.
const LATER: Duration = Duration::from_secs(3_600);

fn hosts(weights: &[u32]) -> Vec<Load> {
    let latency = PeakEwma::new(MS, LATER);
    let host = |(i, &weight): (usize, &u32)| Load::new(i as u64, weight, latency, Duration::ZERO);
    weights.iter().enumerate().map(host).collect()
}

fn pick(balancer: &mut Balancer, hosts: &mut [Load]) -> Option<usize> {
    balancer.pick(hosts, Pick { now: LATER, key: None, tried: &[] })
}

/// Returns how often each host is picked in `calls` calls.
fn counts(policy: Policy, hosts: &mut [Load], calls: usize) -> Vec<usize> {
    let mut balancer = Balancer::new(policy, 7);
    balancer.hosts_changed(hosts);
    let mut counts = vec![0; hosts.len()];
    for _ in 0..calls {
        counts[pick(&mut balancer, hosts).expect("a usable host")] += 1;
    }
    counts
}

const ALL: [Policy; 4] =
    [Policy::PeakEwma, Policy::RoundRobin, Policy::Random, Policy::ConsistentHash];

#[test]
fn no_policy_uses_a_host_that_is_unavailable_or_tried() {
    for policy in ALL {
        let mut hosts = hosts(&[1; 9]);
        let mut balancer = Balancer::new(policy, 3);
        balancer.hosts_changed(&hosts);
        for host in &mut hosts[..7] {
            host.available = false;
        }
        for key in 0..50 {
            let ask = Pick { now: LATER, key: Some(key), tried: &[7] };
            assert_eq!(balancer.pick(&mut hosts, ask), Some(8), "{policy:?}");
            let ask = Pick { tried: &[7, 8], ..ask };
            assert_eq!(balancer.pick(&mut hosts, ask), None, "{policy:?}");
        }
        assert_eq!(balancer.pick(&mut [], Pick { now: LATER, key: Some(1), tried: &[] }), None);
    }
}

#[test]
fn few_usable_hosts_among_many_have_equal_shares() {
    for usable in [2, 3, 6] {
        let mut hosts = hosts(&[1; 40]);
        hosts[usable..].iter_mut().for_each(|host| host.available = false);
        let counts = counts(Policy::PeakEwma, &mut hosts, 600 * usable);
        let even = counts[..usable].iter().all(|count| (500..700).contains(count));
        assert!(even, "{:?}", &counts[..usable]);
    }
}

#[test]
fn the_only_host_is_used_unless_it_was_tried() {
    for policy in ALL {
        let mut one = hosts(&[1]);
        let mut balancer = Balancer::new(policy, 1);
        balancer.hosts_changed(&one);
        assert_eq!(pick(&mut balancer, &mut one), Some(0));
        let tried = Pick { now: LATER, key: None, tried: &[0] };
        assert_eq!(balancer.pick(&mut one, tried), None);
        one[0].available = false;
        assert_eq!(pick(&mut balancer, &mut one), None);
    }
}

#[test]
fn round_robin_takes_turns() {
    let mut hosts = hosts(&[2, 2, 2]);
    let mut balancer = Balancer::new(Policy::RoundRobin, 0);
    let order: Vec<_> = (0..6).filter_map(|_| pick(&mut balancer, &mut hosts)).collect();
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn round_robin_mixes_heavy_hosts_among_the_others() {
    let mut hosts = hosts(&[5, 1, 1]);
    let mut balancer = Balancer::new(Policy::RoundRobin, 0);
    let order: Vec<_> = (0..7).filter_map(|_| pick(&mut balancer, &mut hosts)).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn round_robin_survives_a_change_of_hosts() {
    let mut hosts = hosts(&[3, 1]);
    let mut balancer = Balancer::new(Policy::RoundRobin, 0);
    pick(&mut balancer, &mut hosts);
    hosts.push(Load::new(9, 4, PeakEwma::default(), LATER));
    balancer.hosts_changed(&hosts);
    let mut counts = [0; 3];
    for _ in 0..80 {
        counts[pick(&mut balancer, &mut hosts).expect("a host")] += 1;
    }
    assert_eq!(counts, [30, 10, 40]);
}

#[test]
fn random_choice_follows_the_weights() {
    let even = counts(Policy::Random, &mut hosts(&[1, 1]), 10_000);
    assert!((4_700..5_300).contains(&even[0]), "{even:?}");
    let weighted = counts(Policy::Random, &mut hosts(&[1, 9]), 10_000);
    assert!((850..1_150).contains(&weighted[0]), "{weighted:?}");
}

#[test]
fn a_slow_or_busy_host_is_avoided() {
    for count in [3, 40] {
        let mut slow = hosts(&vec![1; count]);
        slow[0].latency.observe(6 * MS, LATER);
        slow[1].in_flight = 10;
        let counts = counts(Policy::PeakEwma, &mut slow, 4_000);
        assert!(counts[0] < 40 && counts[1] < 40, "{counts:?}");
        assert!(counts[2..].iter().all(|&count| count > 0), "{counts:?}");
    }
}

#[test]
fn equal_hosts_share_equally() {
    let mut equal = hosts(&[1, 1, 1]);
    let mut balancer = Balancer::new(Policy::PeakEwma, 11);
    let mut counts = [0; 3];
    for _ in 0..3_000 {
        // The calls stay in flight, so that an advantage becomes visible.
        let index = pick(&mut balancer, &mut equal).expect("a host");
        equal[index].in_flight += 1;
        counts[index] += 1;
    }
    assert!(counts.iter().all(|&count| (999..=1_001).contains(&count)), "{counts:?}");
}

#[test]
fn a_heavier_host_carries_more_calls_at_once() {
    let mut hosts = hosts(&[1, 2, 5]);
    let mut balancer = Balancer::new(Policy::PeakEwma, 11);
    for _ in 0..800 {
        // The calls stay in flight, so that an advantage becomes visible.
        let index = pick(&mut balancer, &mut hosts).expect("a host");
        hosts[index].in_flight += 1;
    }
    let counts: Vec<_> = hosts.iter().map(|host| host.in_flight).collect();
    for (count, share) in counts.iter().zip([100, 200, 500]) {
        assert!(count.abs_diff(share) <= 3, "{counts:?}");
    }
}

#[test]
fn share_of_a_new_host_ramps_up() {
    let mut hosts = hosts(&[1, 1]);
    hosts[1].joined = LATER;
    let mut share_at = |now: Duration| {
        let mut balancer = Balancer::new(Policy::PeakEwma, 5);
        for host in &mut hosts {
            host.in_flight = 0;
        }
        for _ in 0..1_000 {
            let ask = Pick { now, key: None, tried: &[] };
            let index = balancer.pick(&mut hosts, ask).expect("a host");
            hosts[index].in_flight += 1;
        }
        hosts[1].in_flight
    };
    let (fresh, half, old) =
        (share_at(LATER), share_at(LATER + limits::HOST_RAMP / 2), share_at(LATER * 2));
    assert!(fresh < 120 && fresh > 50, "{fresh}");
    assert!((300..400).contains(&half), "{half}");
    assert!((499..=501).contains(&old), "{old}");
}

fn owners(hosts: &mut [Load], keys: u64) -> HashMap<u64, u64> {
    let mut balancer = Balancer::new(Policy::ConsistentHash, 0);
    balancer.hosts_changed(hosts);
    let mut owner = |key| {
        let ask = Pick { now: LATER, key: Some(key), tried: &[] };
        let index = balancer.pick(hosts, ask).expect("an owner");
        hosts[index].key
    };
    (0..keys).map(|key| (key, owner(key))).collect()
}

#[test]
fn key_stays_with_its_host_when_another_leaves() {
    let mut all = hosts(&[1; 5]);
    let before = owners(&mut all, 10_000);
    let share = |host| before.values().filter(|&&owner| owner == host).count();
    assert!((0..5).all(|host| (1_400..2_700).contains(&share(host))), "unevenly spread");
    let gone = all.remove(2).key;
    let after = owners(&mut all, 10_000);
    for (key, owner) in &before {
        assert!(*owner == gone || after[key] == *owner, "key {key} moved without need");
    }
}

#[test]
fn a_heavier_host_owns_more_keys() {
    // The second ring has fewer points per unit of weight.
    for (weight, others, count) in [(5, 1, 5), (100, 50, 59)] {
        let mut weights = vec![others; count];
        weights.insert(0, weight);
        let owners = owners(&mut hosts(&weights), 20_000);
        let owned = owners.values().filter(|&&owner| owner == 0).count();
        let share = 20_000 * weight as usize / weights.iter().sum::<u32>() as usize;
        assert!(owned.abs_diff(share) < share / 5, "{owned} keys, not about {share}");
    }
}

#[test]
fn an_overloaded_owner_passes_keys_on() {
    let mut hosts = hosts(&[1; 4]);
    let mut balancer = Balancer::new(Policy::ConsistentHash, 0);
    balancer.hosts_changed(&hosts);
    let ask = Pick { now: LATER, key: Some(42), tried: &[] };
    for _ in 0..100 {
        let index = balancer.pick(&mut hosts, ask).expect("a host");
        hosts[index].in_flight += 1;
    }
    assert!(hosts.iter().all(|host| host.in_flight <= 32), "{hosts:?}");
}
