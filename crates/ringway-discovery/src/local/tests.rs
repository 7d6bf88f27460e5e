//! The registry of one process.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::contract::{EndpointChange, Registration, RegistrationState, ServiceWatch};
use crate::limits;

fn endpoint(at: usize) -> Endpoint {
    Endpoint::new(format!("tcp://10.0.0.{at:03}:9000"))
}

/// The changes that a watch tells of without waiting.
fn seen(watch: &mut LocalWatch) -> Vec<EndpointChange> {
    match pin!(watch.changed()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(changes) => changes,
        Poll::Pending => Vec::new(),
    }
}

#[test]
fn endpoints_are_there_while_they_are_registered() {
    let registry = Local::new();
    let service = registry.service("market");
    let held: Vec<_> = (0..10).map(|at| service.register(endpoint(at))).collect();
    let addresses: Vec<_> =
        registry.service("market").endpoints().iter().map(|it| it.address().to_owned()).collect();
    assert!(addresses.is_sorted() && addresses.len() == 10, "{addresses:?}");
    assert!(registry.service("other").endpoints().is_empty());
    assert_eq!(registry.services(), ["market", "other"]);
    drop(held);
    assert!(service.endpoints().is_empty());
}

#[test]
fn a_list_stays_what_it_was_while_somebody_reads_it() {
    let service = Local::new().service("market");
    let first = service.register(endpoint(1));
    let list = service.endpoints();
    drop(first);
    assert_eq!((list.len(), service.endpoints().len()), (1, 0));
}

#[test]
fn a_second_registration_of_an_address_replaces_the_first() {
    let service = Local::new().service("market");
    let mut first = service.register(endpoint(1));
    let second = service.register(endpoint(1).weight(7));
    first.update(|endpoint| endpoint.weight(9));
    assert_eq!((service.endpoints().len(), service.endpoints()[0].weight_of()), (1, 7));
    drop(first);
    assert_eq!(service.endpoints().len(), 1, "the first has no effect any more");
    drop(second);
    assert!(service.endpoints().is_empty());
}

#[test]
fn a_watch_tells_what_was_added_updated_and_removed() {
    let service = Local::new().service("market");
    let _before = service.register(endpoint(1));
    let mut watch = service.watch();
    assert_eq!(watch.endpoints().len(), 1);
    assert!(seen(&mut watch).is_empty());
    let mut held = service.register(endpoint(2));
    held.update(|endpoint| endpoint.weight(3));
    drop(held);
    let (first, changed) = (Arc::new(endpoint(2)), Arc::new(endpoint(2).weight(3)));
    let expected = [
        EndpointChange::Added(first),
        EndpointChange::Updated(Arc::clone(&changed)),
        EndpointChange::Removed(changed),
    ];
    assert_eq!(seen(&mut watch), expected);
    assert_eq!(watch.endpoints().len(), 1);
}

#[test]
fn a_watch_that_is_far_behind_is_told_the_difference() {
    let service = Local::new().service("market");
    let kept = service.register(endpoint(1));
    let gone = service.register(endpoint(2));
    let mut watch = service.watch();
    drop(gone);
    let _new = service.register(endpoint(3));
    let mut changed = kept;
    for weight in 0..limits::LOCAL_HISTORY_CHANGES_MAX {
        changed.update(|endpoint| endpoint.weight(weight as u32));
    }
    let last = limits::LOCAL_HISTORY_CHANGES_MAX - 1;
    let expected = [
        EndpointChange::Updated(Arc::new(endpoint(1).weight(last as u32))),
        EndpointChange::Removed(Arc::new(endpoint(2))),
        EndpointChange::Added(Arc::new(endpoint(3))),
    ];
    assert_eq!(seen(&mut watch), expected);
    assert!(seen(&mut watch).is_empty());
    assert!(watch.endpoints().iter().eq(&*service.endpoints()));
}

#[test]
fn threads_that_register_and_look_up_at_once_see_their_own_endpoints() {
    let registry = Local::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let service = registry.service("market");
            scope.spawn(move || {
                for round in 0..500 {
                    let own = endpoint(thread * 1_000 + round);
                    let held = service.register(own.clone());
                    assert!(service.endpoints().iter().any(|it| **it == own));
                    drop(held);
                    assert!(service.endpoints().iter().all(|it| **it != own));
                }
            });
        }
    });
    assert!(registry.service("market").endpoints().is_empty());
}

#[test]
fn a_watch_that_begins_with_a_snapshot_is_told_the_difference() {
    let service = Local::new().service("market");
    let _kept = service.register(endpoint(1));
    let gone = service.register(endpoint(2));
    let before = ServiceWatch::snapshot(&service.watch());
    drop(gone);
    let _new = service.register(endpoint(3));
    let mut watch = LocalWatch::from(Arc::clone(&service.shared), before);
    let expected = [
        EndpointChange::Removed(Arc::new(endpoint(2))),
        EndpointChange::Added(Arc::new(endpoint(3))),
    ];
    assert_eq!(seen(&mut watch), expected);
    assert!(seen(&mut watch).is_empty());
}

#[test]
fn a_registration_is_told_that_it_was_replaced() {
    let service = Local::new().service("market");
    let mut first = service.register(endpoint(1));
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(first.poll_state(&mut cx), Poll::Ready(RegistrationState::Registered));
    assert_eq!(first.poll_state(&mut cx), Poll::Pending);
    let _second = service.register(endpoint(1));
    assert_eq!(first.poll_state(&mut cx), Poll::Ready(RegistrationState::Replaced));
    assert_eq!(first.poll_state(&mut cx), Poll::Pending);
}

#[test]
fn services_that_nobody_uses_are_forgotten_and_go_on_behind_what_they_were() {
    let registry = Local::new();
    let held = registry.service("held");
    let _registration = registry.service("registered").register(endpoint(1));
    let watch = registry.service("watched").watch();
    let changed = registry.service("changed");
    drop(changed.register(endpoint(1)));
    let before = changed.watch().revision();
    drop(changed);
    for at in 0..10 * limits::LOCAL_SERVICES_UNUSED_MAX {
        assert!(registry.service(&format!("made up {at}")).endpoints().is_empty());
    }
    let names = registry.services();
    assert!(names.len() <= limits::LOCAL_SERVICES_UNUSED_MAX, "{} services", names.len());
    for name in ["held", "registered", "watched"] {
        assert!(names.iter().any(|it| it == name), "{name} is used");
    }
    assert_eq!(registry.service("registered").endpoints().len(), 1);
    let again = registry.service("held").register(endpoint(2));
    assert_eq!(held.endpoints().len(), 1, "it is the same");
    drop((again, watch));
    assert!(!names.iter().any(|it| it == "changed"));
    assert!(registry.service("changed").watch().revision() >= before);
}
