//! Datagrams and their senders.

use super::Fixture;
use super::rig::{Rig, assert_same, pattern};
use crate::buf::Segment;
use crate::driver::{RecvClass, RecvEnd, SendBatch};

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
