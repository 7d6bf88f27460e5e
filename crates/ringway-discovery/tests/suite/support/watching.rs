//! Waiting until a registry is as a test expects it.

use std::future::poll_fn;
use std::time::Duration;

use ringway_discovery::{
    EndpointChange, EtcdConfig, EtcdRegistry, Freshness, Registration, RegistrationState,
    ServiceWatch,
};
use ringway_runtime as runtime;

use super::LIMIT;

/// The shortest TTL.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// A registry on these members that notices soon what is wrong.
pub(crate) fn impatient<A: AsRef<str>>(members: impl IntoIterator<Item = A>) -> EtcdRegistry {
    EtcdRegistry::new(config(members))
}

/// The configuration of an impatient registry.
pub(crate) fn config<A: AsRef<str>>(members: impl IntoIterator<Item = A>) -> EtcdConfig {
    EtcdConfig::new(members)
        .expect("addresses")
        .connect_timeout(Duration::from_millis(500))
        .request_timeout(Duration::from_millis(1_000))
        .progress_interval(Duration::from_millis(500))
        .hold(Duration::from_millis(1_500))
}

/// Runs a test on a core, but not for ever.
pub(crate) fn run(test: impl AsyncFnOnce() + 'static) {
    let limited = async move { runtime::timeout(LIMIT * 2, test()).await };
    runtime::block_on(limited).expect("a core").expect("the test ends in time");
}

/// The addresses of the endpoints that a watch knows.
pub(crate) fn addresses(watch: &dyn ServiceWatch) -> Vec<String> {
    watch.endpoints().iter().map(|it| it.address().to_owned()).collect()
}

/// Waits until a watch knows these endpoints and that they are current. Returns all changes on the way.
pub(crate) async fn until_current(
    watch: &mut Box<dyn ServiceWatch>,
    expected: &[&str],
) -> Vec<EndpointChange> {
    let is_there = |watch: &dyn ServiceWatch| {
        addresses(watch) == expected && watch.freshness() == Freshness::Current
    };
    until(watch, is_there, &format!("{expected:?}, current")).await
}

/// Waits until a watch knows that its list may be out of date.
pub(crate) async fn until_stale(watch: &mut Box<dyn ServiceWatch>) -> Vec<EndpointChange> {
    until(watch, |watch| matches!(watch.freshness(), Freshness::Stale(_)), "stale").await
}

/// Waits until something holds for a watch. Returns all changes on the way.
pub(crate) async fn until(
    watch: &mut Box<dyn ServiceWatch>,
    holds: impl Fn(&dyn ServiceWatch) -> bool,
    what: &str,
) -> Vec<EndpointChange> {
    let mut seen = Vec::new();
    while !holds(&**watch) {
        match runtime::timeout(LIMIT, watch.changed()).await {
            Ok(changes) => seen.extend(changes),
            Err(_) => panic!(
                "the watch knows {:?}, {:?}, not {what}",
                addresses(&**watch),
                watch.freshness()
            ),
        }
    }
    seen
}

/// Waits until an endpoint is registered.
pub(crate) async fn registered(registration: &mut Box<dyn Registration>) {
    if runtime::timeout(LIMIT, registration.registered()).await.is_err() {
        panic!("the endpoint is not registered: {}", registration.state());
    }
}

/// Waits until it is known that an endpoint may not be registered.
pub(crate) async fn in_doubt(registration: &mut Box<dyn Registration>) {
    let is_doubt = |state: &_| matches!(state, RegistrationState::Registering(Some(_)));
    until_state(registration, is_doubt).await;
}

/// Waits until it is known that another registration has taken the place of this one.
pub(crate) async fn replaced(registration: &mut Box<dyn Registration>) {
    until_state(registration, |state| *state == RegistrationState::Replaced).await;
}

async fn until_state(
    registration: &mut Box<dyn Registration>,
    is_it: impl Fn(&RegistrationState) -> bool,
) {
    let reached = async { while !is_it(&poll_fn(|cx| registration.poll_state(cx)).await) {} };
    let is_reached = runtime::timeout(LIMIT, reached).await.is_ok();
    assert!(is_reached, "the registration is {}", registration.state());
}
