//! Peers that have said their end and read slowly, or nothing: for a kernel that end is news of the
//! socket all the time, whether or not there is room.

use socket2::SockAddr;

use super::Fixture;
use super::rig::{Endpoint, Rig, assert_same, pattern};
use crate::driver::{RecvClass, RecvEnd};

/// More than the kernel keeps of a stream whose receiver does not read.
const BLOCKING_BYTES: usize = 8 << 20;

pub(super) fn a_peer_that_has_ended_and_reads_slowly_gets_everything<F: Fixture>(rig: &mut Rig<F>) {
    for addr in addresses(rig, "slow") {
        let (server, ended) = pair_with_ended(rig, &addr);
        for round in 0..2 {
            let wanted = pattern(round, BLOCKING_BYTES);
            rig.send(server, vec![wanted.clone().into()]);
            rig.settle();
            assert!(rig.of(server).is_sending(), "nobody reads");
            let mut goal = 0;
            while goal < BLOCKING_BYTES {
                goal = (goal + BLOCKING_BYTES / 8).min(BLOCKING_BYTES);
                rig.recv_start(ended, RecvClass::Message);
                rig.drive("bytes", |rig| rig.of(ended).received.len() >= goal);
                rig.recv_stop(ended);
                assert_eq!(rig.recv_end(ended), RecvEnd::Stopped);
                rig.settle();
            }
            assert_same(&rig.received(ended, BLOCKING_BYTES), &wanted);
            assert_eq!(rig.sent(server), (BLOCKING_BYTES, 0));
        }
        rig.close(server, false);
        rig.recv_start(ended, RecvClass::Message);
        assert_eq!(rig.recv_end(ended), RecvEnd::Eof);
        rig.close(ended, false);
    }
}

/// The sending half ends behind a batch that waits for such a peer.
pub(super) fn the_end_waits_for_a_peer_that_has_ended<F: Fixture>(rig: &mut Rig<F>) {
    for addr in addresses(rig, "end") {
        let (server, ended) = pair_with_ended(rig, &addr);
        let wanted = pattern(3, BLOCKING_BYTES);
        rig.send(server, vec![wanted.clone().into()]);
        rig.settle();
        rig.shutdown_write(server);
        rig.settle();
        rig.recv_start(ended, RecvClass::Bulk);
        assert_eq!(rig.recv_end(ended), RecvEnd::Eof);
        assert_same(&rig.received(ended, 0), &wanted);
        assert_eq!(rig.sent(server), (BLOCKING_BYTES, 0));
        rig.close(server, false);
        rig.close(ended, false);
    }
}

pub(super) fn a_peer_that_has_ended_and_reads_nothing_can_be_left<F: Fixture>(rig: &mut Rig<F>) {
    for (addr, abort) in
        addresses(rig, "left").into_iter().flat_map(|a| [(a.clone(), false), (a, true)])
    {
        for settles in [false, true] {
            let (server, ended) = pair_with_ended(rig, &addr);
            let wanted = pattern(4, BLOCKING_BYTES);
            rig.send(server, vec![wanted.clone().into()]);
            if settles {
                rig.settle();
                assert!(rig.of(server).is_sending(), "nobody reads");
            }
            rig.close(server, abort);
            let sent = rig.of(server).sent.clone();
            let [(bytes, errno)] = sent[..] else { panic!("{sent:?}") };
            assert!(bytes < BLOCKING_BYTES && errno != 0, "{sent:?}");
            rig.recv_start(ended, RecvClass::Message);
            let end = rig.recv_end(ended);
            // A Unix socket has no reset.
            let is_reset = abort && !addr.is_unix();
            assert_eq!(matches!(end, RecvEnd::Failed(_)), is_reset, "{end:?}");
            let got = rig.received(ended, 0);
            assert_same(&got, &wanted[..got.len()]);
            rig.close(ended, false);
        }
    }
}

/// It is told of the send, whoever else is told of what.
pub(super) fn a_peer_that_has_ended_and_leaves_fails_the_send<F: Fixture>(rig: &mut Rig<F>) {
    for addr in addresses(rig, "leaves") {
        let (server, ended) = pair_with_ended(rig, &addr);
        rig.send(server, vec![pattern(5, BLOCKING_BYTES).into()]);
        rig.settle();
        assert!(rig.of(server).is_sending(), "nobody reads");
        rig.close(ended, false);
        let (bytes, errno) = rig.sent(server);
        assert!(
            bytes < BLOCKING_BYTES && matches!(errno, libc::EPIPE | libc::ECONNRESET),
            "{errno}"
        );
        rig.close(server, false);
    }
}

fn addresses<F: Fixture>(rig: &Rig<F>, name: &str) -> [SockAddr; 2] {
    [F::stream_addr(), rig.unix_addr(name)]
}

/// An end that knows that the other one has ended, and that one.
fn pair_with_ended<F: Fixture>(rig: &mut Rig<F>, addr: &SockAddr) -> (Endpoint, Endpoint) {
    let (ended, server) = rig.pair_at(addr);
    rig.shutdown_write(ended);
    rig.recv_start(server, RecvClass::Message);
    assert_eq!(rig.recv_end(server), RecvEnd::Eof);
    (server, ended)
}
