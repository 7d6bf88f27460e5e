//! Listening, accepting and connecting.

use super::Fixture;
use super::rig::{OPTIONS, Rig, assert_same, pattern};
use crate::driver::{BindOptions, Driver, RecvClass};

pub(super) fn connect_and_accept<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    rig.send_all(client, b"hello");
    assert_eq!(rig.received(server, 5), b"hello");
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn connect_refused<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.close(listener, false);
    let client = rig.connect(&addr);
    rig.drive("a refusal", |rig| !rig.of(client).connected.is_empty());
    assert_eq!(rig.of(client).connected, [libc::ECONNREFUSED]);
    rig.close(client, false);
}

pub(super) fn several_connects_at_once<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    let clients: Vec<_> = (0..50).map(|_| rig.connect(&addr)).collect();
    let servers: Vec<_> = (0..50).map(|_| rig.accepted(listener)).collect();
    for &client in &clients {
        rig.drive("a connection", |rig| !rig.of(client).connected.is_empty());
        assert_eq!(rig.of(client).connected, [0]);
        rig.send_all(client, b"x");
    }
    for &server in &servers {
        rig.recv_start(server, RecvClass::Message);
        assert_eq!(rig.received(server, 1), b"x");
    }
    assert!(rig.of(listener).accepted.is_empty());
    for endpoint in clients.into_iter().chain(servers).chain([listener]) {
        rig.close(endpoint, false);
    }
}

pub(super) fn accept_stop_and_start<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    rig.settle();
    rig.driver.accept_stop(listener.key);
    rig.drive("the end of accepting", |rig| !rig.of(listener).accept_ends.is_empty());
    assert_eq!(rig.of(listener).accept_ends, [libc::ECANCELED]);

    let client = rig.connect(&addr);
    rig.settle();
    assert!(rig.of(listener).accepted.is_empty(), "accepted after the stop");

    rig.accept_start(listener);
    let server = rig.accepted(listener);
    assert_eq!(rig.of(listener).accept_ends.len(), 1, "one end for one stop");
    for endpoint in [client, server, listener] {
        rig.close(endpoint, false);
    }
}

/// A connection that waited while accepting was off is found although no event follows it.
pub(super) fn accept_again_without_a_new_connection<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    let first = rig.connect(&addr);
    let first_server = rig.accepted(listener);
    for _ in 0..5 {
        rig.driver.accept_stop(listener.key);
        rig.drive("the end of accepting", |rig| !rig.of(listener).accept_ends.is_empty());
        rig.of(listener).accept_ends.clear();
        let client = rig.connect(&addr);
        rig.settle();
        rig.accept_start(listener);
        let server = rig.accepted(listener);
        rig.close(client, false);
        rig.close(server, false);
    }
    for endpoint in [first, first_server, listener] {
        rig.close(endpoint, false);
    }
}

pub(super) fn unix_streams<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair_at(&rig.unix_addr("stream"));
    rig.recv_start(server, RecvClass::Message);
    let wanted = pattern(3, 1 << 20);
    rig.send_all(client, &wanted);
    assert_same(&rig.received(server, wanted.len()), &wanted);
    rig.close(client, false);
    rig.close(server, false);
}

/// Connects to a Unix listener that is behind wait for it, as those to a TCP one do.
pub(super) fn unix_connects_wait_for_a_full_backlog<F: Fixture>(rig: &mut Rig<F>) {
    let addr = rig.unix_addr("backlog");
    let options = BindOptions { backlog: 1, ..OPTIONS };
    let (fd, addr) = rig.driver.listen(&addr, options).expect("the name is free");
    let listener = rig.endpoint(fd);
    let clients: Vec<_> = (0..8).map(|_| rig.connect(&addr)).collect();
    rig.settle();
    let connected = |rig: &mut Rig<F>| {
        clients.iter().map(|&client| rig.of(client).connected.len()).sum::<usize>()
    };
    assert!(connected(rig) < clients.len(), "the backlog holds fewer");
    // One that is closed meanwhile is asked for no more.
    rig.close(clients[7], false);
    rig.accept_start(listener);
    rig.drive("all but one", |rig| connected(rig) >= clients.len() - 1);
    for &client in &clients[..7] {
        assert_eq!(rig.of(client).connected, [0]);
        rig.close(client, false);
    }
    while let Some(fd) = rig.of(listener).accepted.pop() {
        rig.driver.close_unregistered(fd);
    }
    rig.close(listener, false);
}
