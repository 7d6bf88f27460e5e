//! Operations under keys that are closing, closed, or were never registered: they do nothing,
//! whatever has the slot or the descriptor by then.

use std::os::fd::RawFd;

use socket2::SockAddr;

use super::Fixture;
use super::resources::{OWN_PROCESS, repeat_in_own_process};
use super::rig::{Endpoint, Rig};
use crate::driver::{Driver, Key, RecvClass, SendBatch, Wait};

pub(super) fn operations_on_a_closing_key_do_nothing<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let (listener, addr) = rig.listen(&F::stream_addr());
    let (datagrams, _) = rig.bind_datagram();
    let (sink, sink_addr) = rig.bind_datagram();
    rig.recv_start(server, RecvClass::Message);
    rig.recv_start(sink, RecvClass::Datagram);
    // Something in flight keeps a key closing for a while, where a driver has such a while.
    rig.recv_start(client, RecvClass::Message);
    rig.recv_start(datagrams, RecvClass::Datagram);
    rig.accept_start(listener);
    rig.turn(Wait::Poll);
    for endpoint in [client, listener, datagrams] {
        rig.driver.close(endpoint.key, false);
        ask_for_everything(rig, endpoint.key, &addr, &sink_addr);
        // The rig fails the test if a second Closed comes.
        rig.driver.close(endpoint.key, true);
        rig.drive("Closed", |rig| rig.of(endpoint).closed);
        ask_for_everything(rig, endpoint.key, &addr, &sink_addr);
    }
    rig.settle();
    for endpoint in [client, listener, datagrams] {
        assert_eq!(rig.of(endpoint).refused, 2 * BATCHES, "each batch comes back, once");
        assert_eq!(rig.of(endpoint).connected.len(), usize::from(endpoint.key == client.key));
    }
    assert_eq!(rig.received(server, 0), b"", "bytes of a closed stream");
    assert!(rig.of(sink).datagrams.is_empty(), "a datagram of a closed socket");
    rig.close(server, false);
    rig.close(sink, false);
}

pub(super) fn operations_on_a_key_that_never_was_do_nothing<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    let (sink, sink_addr) = rig.bind_datagram();
    rig.recv_start(sink, RecvClass::Datagram);
    for key in [Key::new(70_000, 0), Key::new(listener.key.index() as u32, 9), Key::NONE] {
        rig.expect_refusals_of(key);
        ask_for_everything(rig, key, &addr, &sink_addr);
        rig.driver.close(key, false);
    }
    rig.settle();
    assert!(rig.of(sink).datagrams.is_empty());
    rig.close(listener, false);
    rig.close(sink, false);
}

/// The slot and the descriptor of each kind of socket go to each other kind, and the old key is
/// asked for everything meanwhile: the new owner notices nothing.
pub(super) fn a_descriptor_has_one_key<F: Fixture>(rig: &mut Rig<F>) {
    if std::env::var_os(OWN_PROCESS).is_none() {
        return repeat_in_own_process(); // Elsewhere other tests take the descriptors.
    }
    let (sink, sink_addr) = rig.bind_datagram();
    rig.recv_start(sink, RecvClass::Datagram);
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    let mut same_descriptor = 0;
    for round in 0..9 {
        let slot = 1_000 + round;
        let old = Key::new(slot, 0);
        let old_fd = open(rig, round % 3, &addr);
        rig.expect_refusals_of(old);
        rig.driver.register(old, old_fd);
        rig.driver.close(old, false);
        rig.turn(Wait::Poll);
        ask_for_everything(rig, old, &addr, &sink_addr);

        let fd = open(rig, round / 3, &addr);
        same_descriptor += usize::from(fd == old_fd);
        let owner = rig.endpoint_at(Key::new(slot, 1), fd);
        ask_for_everything(rig, old, &addr, &sink_addr);
        rig.driver.close(old, true);
        rig.settle();
        let record = rig.of(owner);
        let quiet = record.received.is_empty() && record.datagrams.is_empty();
        let untouched = record.recv_ends.is_empty() && record.accept_ends.is_empty();
        assert!(quiet && untouched && record.connected.is_empty() && !record.closed);
        check_usable(rig, round / 3, owner, &addr, &sink_addr);
        rig.close(owner, false);
    }
    assert!(rig.driver.is_simulated() || same_descriptor >= 6, "descriptors were not reused");
    rig.close(listener, false);
    rig.close(sink, false);
}

/// A stream not yet connected, a listener, or a datagram socket.
fn open<F: Fixture>(rig: &mut Rig<F>, kind: u32, addr: &SockAddr) -> RawFd {
    match kind {
        0 => rig.driver.open_stream(addr).expect("a descriptor is free"),
        1 => rig.open_listener(),
        _ => rig.open_datagram(),
    }
}

/// The socket still does what its kind does.
fn check_usable<F: Fixture>(
    rig: &mut Rig<F>,
    kind: u32,
    owner: Endpoint,
    listening: &SockAddr,
    sink: &SockAddr,
) {
    match kind {
        0 => {
            rig.driver.connect(owner.key, listening);
            rig.drive("a connection", |rig| !rig.of(owner).connected.is_empty());
            assert_eq!(rig.of(owner).connected, [0]);
            rig.send_all(owner, b"alive");
        }
        1 => {
            rig.accept_start(owner);
            rig.settle();
            assert!(rig.of(owner).accept_ends.is_empty());
        }
        _ => {
            rig.send_to(owner, b"alive", sink);
            assert_eq!(rig.sent(owner), (5, 0));
        }
    }
}

fn ask_for_everything<F: Fixture>(rig: &mut Rig<F>, key: Key, addr: &SockAddr, sink: &SockAddr) {
    let driver = &mut rig.driver;
    driver.connect(key, addr);
    driver.accept_start(key);
    driver.recv_start(key, RecvClass::Message);
    driver.recv_start(key, RecvClass::Datagram);
    for to in [None, Some(Box::new(sink.clone()))] {
        let segments = vec![b"nobody's".as_slice().into()];
        driver.send(key, SendBatch { segments, to, urgent: true });
    }
    assert!(driver.shutdown_write(key).is_err());
    driver.recv_stop(key);
    driver.accept_stop(key);
}

/// What `ask_for_everything` sends.
const BATCHES: usize = 2;
