//! Datagrams and their senders.

use super::Fixture;
use socket2::SockAddr;

use super::rig::{Endpoint, Rig, assert_same, pattern};
use crate::buf::Segment;
use crate::driver::{RecvClass, RecvEnd, SendBatch};
use crate::limits;

pub(super) fn datagram_echo<F: Fixture>(rig: &mut Rig<F>) {
    let (client, client_addr) = rig.bind_datagram();
    let (server, server_addr) = rig.bind_datagram();
    rig.recv_start(client, RecvClass::Datagram);
    rig.recv_start(server, RecvClass::Datagram);
    for len in [1, 100, 1_400, 16_000] {
        let wanted = pattern(len, len);
        rig.send_to(client, &wanted, &server_addr);
        assert_eq!(rig.sent(client), (len, 0));
        rig.drive("a request", |rig| !rig.of(server).datagrams.is_empty());
        let (bytes, from) = rig.of(server).datagrams.remove(0);
        assert_same(&bytes, &wanted);
        let from = from.expect("inet sockets have names");
        assert_eq!(from, client_addr);

        rig.send_to(server, &bytes, &from);
        assert_eq!(rig.sent(server), (len, 0));
        rig.drive("a reply", |rig| !rig.of(client).datagrams.is_empty());
        let (bytes, from) = rig.of(client).datagrams.remove(0);
        assert_same(&bytes, &wanted);
        assert_eq!(from, Some(server_addr.clone()));
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn datagrams_keep_their_bounds<F: Fixture>(rig: &mut Rig<F>) {
    let (client, _) = rig.bind_datagram();
    let (server, addr) = rig.bind_datagram();
    rig.recv_start(server, RecvClass::Datagram);
    let lens = [10, 0, 700, 1, 0, 60];
    for len in lens {
        rig.send_to(client, &pattern(len, len), &addr);
        assert_eq!(rig.sent(client), (len, 0));
    }
    rig.drive("all of them", |rig| rig.of(server).datagrams.len() == lens.len());
    for (len, (bytes, _)) in lens.into_iter().zip(std::mem::take(&mut rig.of(server).datagrams)) {
        assert_same(&bytes, &pattern(len, len));
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn datagram_of_many_segments<F: Fixture>(rig: &mut Rig<F>) {
    let (client, _) = rig.bind_datagram();
    let (server, addr) = rig.bind_datagram();
    rig.recv_start(server, RecvClass::Datagram);
    for count in [2, 64, 65, 300] {
        let segments = (0..count).map(|at| Segment::from(pattern(at * 10, 10))).collect();
        rig.send_batch(
            client,
            SendBatch { segments, to: Some(Box::new(addr.clone())), urgent: true },
        );
        assert_eq!(rig.sent(client), (count * 10, 0));
        rig.drive("one datagram", |rig| !rig.of(server).datagrams.is_empty());
        let (bytes, _) = rig.of(server).datagrams.remove(0);
        assert_same(&bytes, &pattern(0, count * 10));
    }
    rig.close(client, false);
    rig.close(server, false);
}

pub(super) fn datagram_recv_stop<F: Fixture>(rig: &mut Rig<F>) {
    let (client, _) = rig.bind_datagram();
    let (server, addr) = rig.bind_datagram();
    for round in 0..5_u8 {
        rig.recv_start(server, RecvClass::Datagram);
        rig.settle();
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
        rig.send_to(client, &[round], &addr);
        assert_eq!(rig.sent(client), (1, 0));
        rig.settle();
        rig.recv_start(server, RecvClass::Datagram);
        rig.drive("the datagram", |rig| rig.of(server).datagrams.len() == 1);
        assert_eq!(rig.of(server).datagrams.remove(0).0, [round]);
        rig.recv_stop(server);
        assert_eq!(rig.recv_end(server), RecvEnd::Stopped);
    }
    rig.close(client, false);
    rig.close(server, false);
}

/// Several leave without an answer in between, and in order.
pub(super) fn many_datagrams_in_flight<F: Fixture>(rig: &mut Rig<F>) {
    let (client, _) = rig.bind_datagram();
    let (server, addr) = rig.bind_datagram();
    rig.recv_start(server, RecvClass::Datagram);
    let batches = limits::DATAGRAMS_IN_FLIGHT_MAX;
    for number in 0..batches {
        rig.send_to(client, &pattern(number, 20), &addr);
    }
    assert_eq!(rig.sent(client), (20, 0));
    assert_eq!(rig.of(client).sent.len(), batches);
    rig.drive("all of them", |rig| rig.of(server).datagrams.len() == batches);
    for (number, (bytes, _)) in std::mem::take(&mut rig.of(server).datagrams).iter().enumerate() {
        assert_same(bytes, &pattern(number, 20));
    }
    rig.close(client, false);
    rig.close(server, false);
}

/// A Unix receiver whose queue is full makes its senders wait, in order, and loses nothing.
pub(super) fn unix_datagrams_wait_for_their_receiver<F: Fixture>(rig: &mut Rig<F>) {
    let (client, server, addr) = unix_pair(rig);
    let batches = limits::DATAGRAMS_IN_FLIGHT_MAX;
    for number in 0..batches {
        rig.send_to(client, &pattern(number, 20_000), &addr);
    }
    rig.settle();
    assert!(rig.of(client).is_sending(), "no receiver's queue holds so many");
    rig.recv_start(server, RecvClass::Datagram);
    rig.drive("all of them", |rig| rig.of(server).datagrams.len() == batches);
    for (number, (bytes, _)) in std::mem::take(&mut rig.of(server).datagrams).iter().enumerate() {
        assert_same(bytes, &pattern(number, 20_000));
    }
    assert_eq!(rig.sent(client), (20_000, 0));
    assert!(rig.of(client).sent.iter().all(|&sent| sent == (20_000, 0)));
    rig.close(client, false);
    rig.close(server, false);
}

/// What waits comes back when its socket, or the receiver, is closed.
pub(super) fn close_while_datagrams_wait<F: Fixture>(rig: &mut Rig<F>) {
    for receiver_goes_first in [false, true] {
        let (client, server, addr) = unix_pair(rig);
        for number in 0..limits::DATAGRAMS_IN_FLIGHT_MAX {
            rig.send_to(client, &pattern(number, 20_000), &addr);
        }
        rig.settle();
        if receiver_goes_first {
            rig.close(server, false);
            assert_eq!(rig.sent(client), (0, libc::ECONNREFUSED));
            rig.close(client, false);
        } else {
            rig.close(client, false);
            assert!(!rig.of(client).is_sending(), "a batch did not come back");
            rig.close(server, false);
        }
        assert_eq!(rig.of(client).sent.len(), limits::DATAGRAMS_IN_FLIGHT_MAX);
    }
}

/// Two Unix datagram sockets, and the address of the second.
fn unix_pair<F: Fixture>(rig: &mut Rig<F>) -> (Endpoint, Endpoint, SockAddr) {
    let (client, _) = rig.bind_datagram_at(&rig.unix_addr("near"));
    let (server, addr) = rig.bind_datagram_at(&rig.unix_addr("far"));
    (client, server, addr)
}
