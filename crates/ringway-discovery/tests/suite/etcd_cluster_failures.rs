//! What happens to registrations and watches when members of a cluster of three fail.

use ringway_discovery::{Discovery, Endpoint};

use crate::support::cluster::Cluster;
use crate::support::eventually;
use crate::support::namespaces::Namespaces;
use crate::support::watching::{TTL, impatient, registered, run, until_current};

const A: &str = "tcp://10.0.0.1:9000";
const B: &str = "tcp://10.0.0.2:9000";

#[test]
fn leader_that_dies() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let mut a = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        let mut watch = registry.watch("market", None).expect("a name");
        registered(&mut a).await;
        let mut seen = until_current(&mut watch, &[A]).await;
        seen.clear();
        let leader = cluster.leader(0).expect("a leader");
        cluster.kill(leader);
        let mut b = registry.register("market", Endpoint::new(B), TTL).expect("valid");
        registered(&mut b).await;
        seen.extend(until_current(&mut watch, &[A, B]).await);
        assert_eq!(seen.len(), 1, "one was added, and none was gone meanwhile: {seen:?}");
        let next = cluster.leader((leader + 1) % 3).expect("a leader");
        assert_ne!(next, leader);
        registered(&mut a).await;
    });
}

/// The member answers its clients, and knows no leader any more.
#[test]
fn member_that_is_cut_off_from_its_peers() {
    partitioned(|network, cluster| {
        network.cut_from_peers(0);
        eventually("the member knows no leader", || {
            cluster.ctl(0, &["endpoint", "status", "--write-out=json"]).contains("no leader")
        });
    });
}

/// The member says nothing any more, and connections to it stay open.
#[test]
fn member_that_is_cut_off_from_everybody() {
    partitioned(|network, _| network.cut_from_all(0));
}

/// A seed with which the next registry of this thread begins with the first of three members.
fn seed_of_first() -> u64 {
    let is_first = |seed: &u64| fastrand::Rng::with_seed(*seed).usize(..3) == 0;
    (0..).find(is_first).expect("one of three")
}

fn partitioned(cut: impl Fn(&Namespaces, &Cluster) + 'static) {
    let Some(network) = Namespaces::new(3) else { return };
    let Some(mut cluster) = Cluster::prepare(network.places(), &[]) else { return };
    cluster.start_all();
    run(async move || {
        let all = cluster.authorities();
        // Each begins with the member that is cut off.
        let begin = || {
            fastrand::seed(seed_of_first());
            impatient(&all)
        };
        let registries: Vec<_> = (0..3).map(|_| begin()).collect();
        let mut held = Vec::new();
        let mut watches = Vec::new();
        for (at, registry) in registries.iter().enumerate() {
            let service = format!("market-{at}");
            held.push(registry.register(&service, Endpoint::new(A), TTL).expect("valid"));
            watches.push(registry.watch(&service, None).expect("a name"));
        }
        for (held, watch) in held.iter_mut().zip(&mut watches) {
            registered(held).await;
            until_current(watch, &[A]).await;
        }
        cut(&network, &cluster);
        // Others register through members that are not cut off, and every watch sees it.
        let well = impatient(&all[1..]);
        let mut others = Vec::new();
        for at in 0..registries.len() {
            let service = format!("market-{at}");
            let mut other = well.register(&service, Endpoint::new(B), TTL).expect("valid");
            registered(&mut other).await;
            others.push(other);
        }
        for (held, watch) in held.iter_mut().zip(&mut watches) {
            let seen = until_current(watch, &[A, B]).await;
            assert!(seen.len() <= 1, "one was added, and none was gone meanwhile: {seen:?}");
            registered(held).await;
        }
    });
}
