//! What every registry does, checked on each: in this process, on a registry server, in memory and with a log, and on
//! real etcd.

use std::pin::Pin;
use std::sync::Arc;

use ringway_discovery::{
    Discovery, Endpoint, EndpointChange, Freshness, Health, Local, RegistrationState, Registry,
};
use ringway_runtime as runtime;

use crate::support::cluster::Cluster;
use crate::support::watching::{
    TTL, addresses, impatient, registered, replaced as until_replaced, run, until, until_current,
};
use crate::support::{authority, end, serve};

type Check = fn(&dyn Discovery) -> Pin<Box<dyn Future<Output = ()> + '_>>;

const CHECKS: [(&str, Check); 8] = [
    ("a registered endpoint is listed until it is deregistered", |it| Box::pin(listed(it))),
    ("a watch tells what was added, updated and removed, in order", |it| Box::pin(changes(it))),
    ("a dropped registration deregisters", |it| Box::pin(dropped(it))),
    ("a second registration of an address replaces the first", |it| Box::pin(replaced(it))),
    ("an endpoint keeps its address", |it| Box::pin(address(it))),
    ("a watch begins with a snapshot", |it| Box::pin(from_snapshot(it))),
    ("services do not see each other", |it| Box::pin(others(it))),
    ("many watches see the same list", |it| Box::pin(many(it))),
];

#[test]
fn contract_of_a_process_own_registry() {
    run(async move || check_all(&Local::new()).await);
}

#[test]
fn contract_of_a_registry_server() {
    let registry = Registry::new();
    let server = serve(&registry);
    let authority = authority(&server);
    run(async move || check_all(&impatient([authority])).await);
    end(server);
}

#[test]
fn contract_of_a_registry_server_with_a_log() {
    let folder = tempfile::tempdir().expect("a directory");
    let opening = Registry::builder().data(folder.path());
    let registry = runtime::block_on(async move { opening.open().await });
    let server = serve(&registry.expect("a core").expect("an empty folder"));
    let authority = authority(&server);
    run(async move || check_all(&impatient([authority])).await);
    end(server);
}

#[test]
fn contract_of_etcd() {
    let Some(cluster) = Cluster::start(1) else { return };
    run(async move || check_all(&impatient(cluster.authorities())).await);
}

async fn check_all(registry: &dyn Discovery) {
    for (what, check) in CHECKS {
        println!("{what}");
        check(registry).await;
    }
}

const A: &str = "tcp://10.0.0.1:9000";
const B: &str = "tcp://10.0.0.2:9000";
const C: &str = "tcp://10.0.0.3:9000";

async fn listed(registry: &dyn Discovery) {
    let before = registry.snapshot("listed").await.expect("a list");
    assert!(before.endpoints.is_empty());
    let endpoint = Endpoint::new(A).weight(7).zone("eu-1").version("1.2").with("rack", "5");
    let mut held = registry.register("listed", endpoint.clone(), TTL).expect("valid");
    registered(&mut held).await;
    assert_eq!(held.state(), RegistrationState::Registered);
    let during = registry.snapshot("listed").await.expect("a list");
    assert_eq!(during.endpoints, [Arc::new(endpoint)]);
    assert!(during.revision > before.revision, "{:?} {:?}", before.revision, during.revision);
    held.deregister().await.expect("deregistered");
    let after = registry.snapshot("listed").await.expect("a list");
    assert!(after.endpoints.is_empty() && after.revision > during.revision);
}

async fn changes(registry: &dyn Discovery) {
    let mut watch = registry.watch("changes", None).expect("a name");
    until_current(&mut watch, &[]).await;
    let (first, second) = (Endpoint::new(A), Endpoint::new(A).with_health(Health::Draining));
    let mut held = registry.register("changes", first.clone(), TTL).expect("valid");
    let added = until_current(&mut watch, &[A]).await;
    let revision = watch.revision();
    held.update(second.clone());
    let is_draining = |list: &[Arc<Endpoint>]| list[0].health() == Health::Draining;
    let updated = until(&mut watch, |it| is_draining(it.endpoints()), "draining").await;
    assert!(watch.revision() > revision);
    held.deregister().await.expect("deregistered");
    let removed = until_current(&mut watch, &[]).await;
    assert_eq!(added, [EndpointChange::Added(Arc::new(first))]);
    assert_eq!(updated, [EndpointChange::Updated(Arc::new(second.clone()))]);
    assert_eq!(removed, [EndpointChange::Removed(Arc::new(second))]);
}

async fn dropped(registry: &dyn Discovery) {
    let mut watch = registry.watch("dropped", None).expect("a name");
    let held = registry.register("dropped", Endpoint::new(A), TTL).expect("valid");
    until_current(&mut watch, &[A]).await;
    drop(held);
    until_current(&mut watch, &[]).await;
}

async fn replaced(registry: &dyn Discovery) {
    let mut watch = registry.watch("replaced", None).expect("a name");
    let mut first = registry.register("replaced", Endpoint::new(A), TTL).expect("valid");
    registered(&mut first).await;
    let second = Endpoint::new(A).weight(9);
    let mut second = registry.register("replaced", second, TTL).expect("valid");
    registered(&mut second).await;
    first.update(Endpoint::new(A).weight(5));
    until_replaced(&mut first).await;
    assert!(first.registered().await.is_err());
    first.deregister().await.expect("nothing to do");
    let has_weight = |weight| move |list: &[Arc<Endpoint>]| list[0].weight_of() == weight;
    until_current(&mut watch, &[A]).await;
    until(&mut watch, |it| has_weight(9)(it.endpoints()), "the second").await;
    assert_eq!(second.state(), RegistrationState::Registered);
    second.deregister().await.expect("deregistered");
    until_current(&mut watch, &[]).await;
}

async fn address(registry: &dyn Discovery) {
    let mut watch = registry.watch("address", None).expect("a name");
    let mut held = registry.register("address", Endpoint::new(A), TTL).expect("valid");
    registered(&mut held).await;
    held.update(Endpoint::new(B).weight(3));
    let is_changed = |list: &[Arc<Endpoint>]| list.iter().any(|it| it.weight_of() == 3);
    until(&mut watch, |it| is_changed(it.endpoints()), "weight 3").await;
    assert_eq!(addresses(&*watch), [A]);
}

async fn from_snapshot(registry: &dyn Discovery) {
    let mut kept = registry.register("from", Endpoint::new(A), TTL).expect("valid");
    let mut gone = registry.register("from", Endpoint::new(B), TTL).expect("valid");
    registered(&mut kept).await;
    registered(&mut gone).await;
    let snapshot = registry.snapshot("from").await.expect("a list");
    gone.deregister().await.expect("deregistered");
    let mut new = registry.register("from", Endpoint::new(C), TTL).expect("valid");
    registered(&mut new).await;
    let mut watch = registry.watch("from", Some(snapshot)).expect("a name");
    assert_eq!(addresses(&*watch), [A, B], "the list of before, at once");
    let seen = until_current(&mut watch, &[A, C]).await;
    let expected = [
        EndpointChange::Removed(Arc::new(Endpoint::new(B))),
        EndpointChange::Added(Arc::new(Endpoint::new(C))),
    ];
    assert_eq!(seen, expected);
}

async fn others(registry: &dyn Discovery) {
    let names = ["other", "other2", "other/eu"];
    let mut held = Vec::new();
    for (name, address) in names.into_iter().zip([A, B, C]) {
        let mut one = registry.register(name, Endpoint::new(address), TTL).expect("valid");
        registered(&mut one).await;
        held.push(one);
    }
    for (name, address) in names.into_iter().zip([A, B, C]) {
        let mut watch = registry.watch(name, None).expect("a name");
        until_current(&mut watch, &[address]).await;
    }
}

async fn many(registry: &dyn Discovery) {
    let mut watches: Vec<_> =
        (0..20).map(|_| registry.watch("many", None).expect("a name")).collect();
    let mut held: Vec<_> = [B, A, C]
        .map(|it| registry.register("many", Endpoint::new(it), TTL).expect("valid"))
        .into();
    for watch in &mut watches {
        until_current(watch, &[A, B, C]).await;
    }
    drop(held.remove(0));
    for watch in &mut watches {
        until_current(watch, &[A, C]).await;
        assert_eq!(watch.freshness(), Freshness::Current);
    }
}
