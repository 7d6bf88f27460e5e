//! Closing, aborting, and what follows a closed key.

use super::Fixture;
use super::rig::{Rig, assert_same, pattern};
use crate::driver::{Driver, Key, RecvClass, RecvEnd, Wait};

/// More than the kernel keeps of a stream whose receiver does not read.
const BLOCKING_BYTES: usize = 24 << 20;

pub(super) fn close_is_last<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(client, RecvClass::Message);
    rig.send(client, vec![pattern(0, BLOCKING_BYTES).into()]);
    rig.settle();
    assert_eq!(rig.of(client).sent, [], "nobody reads");
    rig.close(client, false);

    // The rig fails the test if anything follows Closed.
    rig.recv_start(server, RecvClass::Message);
    assert_eq!(rig.recv_end(server), RecvEnd::Eof);
    let got = rig.received(server, 0);
    assert!(got.len() < BLOCKING_BYTES);
    assert_same(&got, &pattern(0, got.len()));
    rig.close(server, false);
    rig.settle();
}

/// Operations that the kernel may not even have seen yet end, too.
pub(super) fn close_right_after_the_operations<F: Fixture>(rig: &mut Rig<F>) {
    for abort in [false, true] {
        let (client, server) = rig.pair();
        rig.recv_start(client, RecvClass::Message);
        rig.send(client, vec![pattern(0, BLOCKING_BYTES).into()]);
        rig.close(client, abort);
        rig.recv_start(server, RecvClass::Message);
        rig.recv_stop(server);
        rig.close(server, abort);
        rig.settle();
    }
}

pub(super) fn close_of_a_listener<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    rig.settle();
    rig.close(listener, false);
    let late = rig.connect(&addr);
    rig.drive("a refusal", |rig| !rig.of(late).connected.is_empty());
    assert_eq!(rig.of(late).connected, [libc::ECONNREFUSED]);
    rig.close(late, false);
}

pub(super) fn close_while_connecting<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    for _ in 0..10 {
        let client = rig.connect(&addr);
        rig.close(client, false);
    }
    rig.close(listener, false);
    rig.settle();
}

pub(super) fn close_while_receive_is_parked<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    let mut taken: Vec<_> = std::iter::from_fn(|| rig.pools.message.take()).collect();
    rig.holds_views = true;
    rig.recv_start(server, RecvClass::Message);
    rig.send(server, vec![pattern(0, BLOCKING_BYTES).into()]);
    // Drivers lend buffers ahead, so it takes more than `taken` to run out.
    rig.send(client, vec![pattern(0, 8 << 20).into()]);
    rig.drive("want of a buffer", |rig| rig.driver.counters().starved > 0);
    rig.of(server).views.clear();
    taken.clear();
    rig.close(server, false);
    rig.settle();
    rig.close(client, false);
}

pub(super) fn abort_resets_the_peer<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.recv_start(server, RecvClass::Message);
    rig.send_all(client, b"last words");
    assert_eq!(rig.received(server, 10), b"last words");
    rig.close(client, true);
    assert_eq!(rig.recv_end(server), RecvEnd::Failed(libc::ECONNRESET));
    rig.close(server, false);
}

pub(super) fn send_to_a_closed_peer_fails<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server) = rig.pair();
    rig.send(server, vec![pattern(0, BLOCKING_BYTES).into()]);
    rig.settle();
    rig.close(client, true);
    let (bytes, errno) = rig.sent(server);
    assert!(bytes < BLOCKING_BYTES);
    assert!(matches!(errno, libc::ECONNRESET | libc::EPIPE), "{errno}");
    rig.send(server, vec![b"more".as_slice().into()]);
    assert_eq!(rig.sent(server), (0, libc::EPIPE));
    rig.close(server, false);
}

pub(super) fn keys_are_reused_without_stale_events<F: Fixture>(rig: &mut Rig<F>) {
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    for generation in 0..40 {
        let client = rig.connect(&addr);
        let fd = rig.accepted_fd(listener);
        let server = rig.endpoint_at(Key::new(1_000, generation), fd);
        rig.recv_start(server, RecvClass::Message);
        let wanted = pattern(generation as usize, 5_000);
        rig.send_all(client, &wanted);
        assert_same(&rig.received(server, wanted.len()), &wanted);
        // Bytes and the end of the stream arrive about when the key is closed and taken again.
        rig.send(client, vec![pattern(0, 50_000).into()]);
        rig.shutdown_write(client);
        if generation % 2 == 0 {
            rig.turn(Wait::Poll);
        }
        rig.close(server, generation % 3 == 0);
        rig.close(client, false);
    }
    rig.close(listener, false);
}

/// The kernel must be done with the memory before it is given back.
pub(super) fn drop_with_everything_in_flight<F: Fixture>(rig: &mut Rig<F>) {
    let eventfd = rig.eventfd.clone();
    let mut driver = F::driver(&rig.pools, eventfd).expect("the rig has one, too");
    std::mem::swap(&mut driver, &mut rig.driver);
    let (client, server) = rig.pair();
    rig.recv_start(client, RecvClass::Message);
    rig.recv_start(server, RecvClass::Bulk);
    rig.send(client, vec![pattern(0, BLOCKING_BYTES).into()]);
    let (listener, addr) = rig.listen(&F::stream_addr());
    rig.accept_start(listener);
    rig.connect(&addr);
    rig.turn(Wait::Poll);
    std::mem::swap(&mut driver, &mut rig.driver);
    drop(driver);
}
