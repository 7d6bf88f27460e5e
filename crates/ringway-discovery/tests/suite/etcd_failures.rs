//! What happens to registrations and watches when etcd fails, with one real member.

use ringway_discovery::{
    Announcement, Discovery, Endpoint, EndpointChange, EtcdRegistry, Freshness, RegistrationState,
    RegistryResolver, ServiceSnapshot,
};
use ringway_rpc::{CallOptions, Client, ResolverState};

use crate::support::cluster::{Cluster, free_place};
use crate::support::load::Load;
use crate::support::relay::Relay;
use crate::support::watching::{
    TTL, addresses, config, impatient, in_doubt, registered, run, until, until_current, until_stale,
};
use crate::support::who::{Named, WhoClient};
use crate::support::{LIMIT, end, eventually};

const A: &str = "tcp://10.0.0.1:9000";
const B: &str = "tcp://10.0.0.2:9000";
const C: &str = "tcp://10.0.0.3:9000";

#[test]
fn stopped_for_longer_than_the_ttl() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        let mut watch = registry.watch("market", None).expect("a name");
        registered(&mut held).await;
        until_current(&mut watch, &[A]).await;
        cluster.kill(0);
        let mut seen = until_stale(&mut watch).await;
        in_doubt(&mut held).await;
        assert_eq!(addresses(&*watch), [A], "the list is kept");
        cluster.start_member(0);
        registered(&mut held).await;
        seen.extend(until_current(&mut watch, &[A]).await);
        assert_eq!(seen, [], "no endpoint has gone meanwhile");
    });
}

#[test]
fn no_call_fails_while_etcd_is_down() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    let registry = impatient(cluster.authorities());
    let servers = ["one", "other"].map(|name| {
        let announcement = Announcement::new(registry.clone(), "who").ttl(TTL);
        let server = announcement.on(Named::new(name).server()).expect("an address");
        server.start().expect("the server starts")
    });
    let options = CallOptions::new().timeout(LIMIT);
    let resolver = RegistryResolver::new(registry, "who");
    let client = Client::builder().resolver(resolver).options(options).build().expect("a client");
    let is = |state, hosts| {
        client.resolver_stats().is_some_and(|it| (it.state, it.hosts) == (state, hosts))
    };
    eventually("both are known", || is(ResolverState::Current, 2));
    let load = Load::begin(vec![WhoClient::new(client.clone())]);
    cluster.kill(0);
    eventually("it is known that etcd is down", || is(ResolverState::Failing, 2));
    let before = load.answered();
    eventually("calls go on without it", || load.answered() > before + 300);
    cluster.start_member(0);
    eventually("it is back", || is(ResolverState::Current, 2));
    let before = load.answered();
    eventually("calls go on with it", || load.answered() > before + 300);
    let failures = load.end();
    assert!(failures.is_empty(), "{} calls failed: {:?}", failures.len(), failures[0]);
    servers.into_iter().for_each(end);
}

#[test]
fn started_again_without_its_data() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let mut held =
            [A, B].map(|it| registry.register("market", Endpoint::new(it), TTL).expect("valid"));
        let mut watch = registry.watch("market", None).expect("a name");
        until_current(&mut watch, &[A, B]).await;
        cluster.kill(0);
        let mut seen = until_stale(&mut watch).await;
        cluster.lose_data(0);
        cluster.start_member(0);
        for one in &mut held {
            registered(one).await;
        }
        seen.extend(until_current(&mut watch, &[A, B]).await);
        assert_eq!(seen, [], "the empty list was not believed");
    });
}

#[test]
fn lease_revoked_behind_our_back() {
    let Some(cluster) = Cluster::start(1) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        let mut watch = registry.watch("market", None).expect("a name");
        until_current(&mut watch, &[A]).await;
        registered(&mut held).await;
        let leases = cluster.ctl(0, &["lease", "list"]);
        let lease = leases.lines().nth(1).expect("one lease").to_owned();
        cluster.ctl(0, &["lease", "revoke", &lease]);
        until_current(&mut watch, &[]).await;
        until_current(&mut watch, &[A]).await;
        registered(&mut held).await;
        assert!(!cluster.ctl(0, &["lease", "list"]).contains(&lease), "it has a new lease");
    });
}

#[test]
fn compacted_while_the_watch_is_cut() {
    let Some(cluster) = Cluster::start(1) else { return };
    let relay = Relay::to(cluster.authority(0));
    run(async move || {
        let (direct, cut) = (impatient(cluster.authorities()), impatient([&relay.authority]));
        let [a, b] =
            [A, B].map(|it| direct.register("market", Endpoint::new(it), TTL).expect("valid"));
        let mut watch = cut.watch("market", None).expect("a name");
        until_current(&mut watch, &[A, B]).await;
        relay.cut();
        let mut seen = until_stale(&mut watch).await;
        b.deregister().await.expect("deregistered");
        let mut c = direct.register("market", Endpoint::new(C), TTL).expect("valid");
        registered(&mut c).await;
        let revision = direct.snapshot("market").await.expect("a list").revision.0;
        let said = cluster.ctl(0, &["compact", &revision.to_string()]);
        assert!(said.contains("compacted revision"), "{said}");
        relay.mend();
        seen.extend(until_current(&mut watch, &[A, C]).await);
        let expected = [
            EndpointChange::Removed(Endpoint::new(B).into()),
            EndpointChange::Added(Endpoint::new(C).into()),
        ];
        assert_eq!(seen, expected, "the difference, and no more");
        drop(a);
    });
}

#[test]
fn watch_that_was_cut_goes_on_where_it_was() {
    let Some(cluster) = Cluster::start(1) else { return };
    let relay = Relay::to(cluster.authority(0));
    run(async move || {
        let (direct, cut) = (impatient(cluster.authorities()), impatient([&relay.authority]));
        let mut watch = cut.watch("market", None).expect("a name");
        until_current(&mut watch, &[]).await;
        for round in 0..5 {
            relay.cut();
            until_stale(&mut watch).await;
            let endpoint = Endpoint::new(A).weight(round + 1);
            let mut held = direct.register("market", endpoint, TTL).expect("valid");
            registered(&mut held).await;
            relay.mend();
            until_current(&mut watch, &[A]).await;
            assert_eq!(watch.endpoints()[0].weight_of(), round + 1);
            held.deregister().await.expect("deregistered");
            until_current(&mut watch, &[]).await;
        }
    });
}

#[test]
fn down_at_start() {
    let Some(mut cluster) = Cluster::prepare(vec![free_place()], &[]) else { return };
    run(async move || {
        let registry = impatient(cluster.authorities());
        let endpoints = vec![Endpoint::new(A).into(), Endpoint::new(B).into()];
        let old = ServiceSnapshot { revision: ringway_discovery::Revision(1 << 40), endpoints };
        let mut watch = registry.watch("market", Some(old)).expect("a name");
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        in_doubt(&mut held).await;
        let is_tried = |freshness| matches!(freshness, Freshness::Unknown(Some(_)));
        until(&mut watch, |it| is_tried(it.freshness()), "being tried").await;
        assert_eq!(addresses(&*watch), [A, B], "the list from before");
        assert!(registry.snapshot("market").await.is_err());
        cluster.start_all();
        registered(&mut held).await;
        let seen = until_current(&mut watch, &[A]).await;
        assert_eq!(seen, [EndpointChange::Removed(Endpoint::new(B).into())]);
    });
}

/// Simple tokens are lost when a member is started again, and void when the rights of users change.
#[test]
fn token_that_has_expired_or_is_old() {
    let Some(mut cluster) = Cluster::start(1) else { return };
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "market:open sesame"],
        &["role", "add", "registry"],
        &["role", "grant-permission", "registry", "--prefix=true", "readwrite", "ringway/"],
        &["user", "grant-role", "market", "registry"],
        &["auth", "enable"],
    ] {
        let said = cluster.ctl(0, arguments);
        assert!(!said.is_empty(), "etcdctl {arguments:?}");
    }
    run(async move || {
        let authorities = cluster.authorities();
        let market = config(&authorities).user("market", "open sesame");
        let registry = EtcdRegistry::new(market.clone());
        let mut held = registry.register("market", Endpoint::new(A), TTL).expect("valid");
        let mut watch = registry.watch("market", None).expect("a name");
        registered(&mut held).await;
        until_current(&mut watch, &[A]).await;

        let as_root = "--user=root:secret";
        let said = cluster.ctl(0, &[as_root, "role", "add", "another"]);
        assert!(said.contains("Role another created"), "{said}");
        let mut b = registry.register("market", Endpoint::new(B), TTL).expect("valid");
        registered(&mut b).await;
        until_current(&mut watch, &[A, B]).await;

        cluster.kill(0);
        until_stale(&mut watch).await;
        cluster.start_member(0);
        let mut c = registry.register("market", Endpoint::new(C), TTL).expect("valid");
        registered(&mut c).await;
        until_current(&mut watch, &[A, B, C]).await;
        registered(&mut held).await;

        let wrong = EtcdRegistry::new(market.user("market", "a secret mistake"));
        let error = wrong.snapshot("market").await.expect_err("the wrong password").to_string();
        assert!(error.contains("authentication failed"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        let mut refused = registry_of_others(&authorities);
        in_doubt(&mut refused).await;
        assert!(matches!(refused.state(), RegistrationState::Registering(Some(why))
                if why.to_string().contains("permission denied")));
    });
}

/// Registers where the user has no right to.
fn registry_of_others(authorities: &[String]) -> Box<dyn ringway_discovery::Registration> {
    let elsewhere = config(authorities).user("market", "open sesame").namespace("elsewhere/");
    EtcdRegistry::new(elsewhere)
        .register("market", Endpoint::new(A), TTL)
        .expect("valid as far as can be seen from here")
}
