//! Datagram sockets.

use socket2::SockAddr;

use super::lab::{Lab, OPTIONS, inet};
use crate::buf::Segment;
use crate::driver::sim::{Faults, SimConfig};
use crate::driver::{Driver, Event, Key, RecvClass, SendBatch};

fn bind(lab: &mut Lab, addr: &SockAddr) -> (Key, SockAddr) {
    let (fd, bound) = lab.sim.bind_datagram(addr, OPTIONS).unwrap();
    (lab.register(fd), bound)
}

/// Sends one datagram in two segments and tells the outcome.
fn send_to(lab: &mut Lab, from: Key, to: &SockAddr, bytes: &[u8]) -> Vec<Event> {
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    let segments = vec![Segment::from(head.to_vec()), Segment::from(tail.to_vec())];
    lab.send_batch(from, SendBatch { segments, to: Some(Box::new(to.clone())), urgent: true });
    lab.settle()
}

fn datagrams(events: &[Event]) -> Vec<(Vec<u8>, SockAddr)> {
    let datagram = |event: &Event| match event {
        Event::Datagram { data, from, .. } => Some((data.to_vec(), *from.clone()?)),
        _ => None,
    };
    events.iter().filter_map(datagram).collect()
}

fn errno(events: &[Event]) -> Option<i32> {
    events.iter().find_map(|event| match event {
        Event::Sent { errno, .. } => Some(*errno),
        _ => None,
    })
}

#[test]
fn datagrams_arrive_whole_with_their_sender() {
    let mut lab = Lab::new(SimConfig::new(1));
    let (server, server_addr) = bind(&mut lab, &inet("127.0.0.1:0"));
    let (client, client_addr) = bind(&mut lab, &inet("127.0.0.1:0"));
    lab.recv_start(server, RecvClass::Datagram);
    for message in [&b"one"[..], b"", b"three"] {
        let events = send_to(&mut lab, client, &server_addr, message);
        assert_eq!(datagrams(&events), [(message.to_vec(), client_addr.clone())]);
        assert_eq!(errno(&events), Some(0));
    }
    for key in [client, server] {
        lab.close(key);
    }
    lab.settle();
    lab.finish();
}

#[test]
fn a_connected_socket_needs_no_address() {
    let mut lab = Lab::new(SimConfig::new(2));
    let (server, server_addr) = bind(&mut lab, &inet("127.0.0.1:0"));
    let (client, _) = bind(&mut lab, &inet("127.0.0.1:0"));
    lab.recv_start(server, RecvClass::Datagram);
    lab.send(client, "nowhere");
    assert_eq!(errno(&lab.settle()), Some(libc::EDESTADDRREQ));
    let fd = lab.fd(client);
    lab.sim.connect(client, &server_addr);
    let mut events = Vec::new();
    lab.sim.turn(crate::driver::Wait::Poll, &mut events).unwrap();
    assert!(matches!(events[..], [Event::Connected { errno: 0, .. }]), "{events:?}");
    lab.send(client, "there");
    assert_eq!(datagrams(&lab.settle())[0].0, b"there");
    assert_eq!(lab.sim.peer_addr(fd).unwrap(), server_addr);
}

#[test]
fn too_long_is_an_error_and_nobody_there_is_not() {
    let mut lab = Lab::new(SimConfig::new(3));
    let (client, _) = bind(&mut lab, &inet("127.0.0.1:0"));
    let nobody = inet("127.0.0.1:9");
    assert_eq!(errno(&send_to(&mut lab, client, &nobody, &[0; 65_508])), Some(libc::EMSGSIZE));
    assert_eq!(errno(&send_to(&mut lab, client, &nobody, &[0; 65_507])), Some(0));
}

#[test]
fn a_full_queue_drops() {
    let mut lab = Lab::new(SimConfig { socket_buffer_bytes: 1_000, ..SimConfig::new(4) });
    let (server, addr) = bind(&mut lab, &inet("127.0.0.1:0"));
    let (client, _) = bind(&mut lab, &inet("127.0.0.1:0"));
    for _ in 0..5 {
        send_to(&mut lab, client, &addr, &[7; 300]);
    }
    lab.recv_start(server, RecvClass::Datagram);
    assert_eq!(datagrams(&lab.settle()).len(), 2);
}

#[test]
fn unix_datagrams_wait_for_room_and_need_a_receiver() {
    let mut lab = Lab::new(SimConfig { socket_buffer_bytes: 500, ..SimConfig::new(5) });
    let path = |name| SockAddr::unix(format!("/run/{name}")).unwrap();
    let (server, addr) = bind(&mut lab, &path("server"));
    let (client, client_addr) = bind(&mut lab, &path("client"));
    assert_eq!(errno(&send_to(&mut lab, client, &addr, &[1; 400])), Some(0));
    assert_eq!(errno(&send_to(&mut lab, client, &addr, &[2; 400])), None);
    lab.recv_start(server, RecvClass::Datagram);
    let events = lab.settle();
    assert_eq!(errno(&events), Some(0));
    assert_eq!(datagrams(&events)[1], (vec![2; 400], client_addr));
    lab.close(server);
    lab.settle();
    assert_eq!(errno(&send_to(&mut lab, client, &addr, &[3; 4])), Some(libc::ECONNREFUSED));
}

#[test]
fn faults_lose_double_and_reorder() {
    let run = |faults| {
        let mut lab = Lab::with_buffers(SimConfig { faults, ..SimConfig::new(6) }, 256);
        let (server, addr) = bind(&mut lab, &inet("127.0.0.1:0"));
        let (client, _) = bind(&mut lab, &inet("127.0.0.1:0"));
        lab.recv_start(server, RecvClass::Datagram);
        let mut got = Vec::new();
        for number in 0..100 {
            let segments = vec![Segment::from(vec![number])];
            lab.send_batch(
                client,
                SendBatch { segments, to: Some(Box::new(addr.clone())), urgent: true },
            );
            let events = lab.turn(crate::driver::Wait::Poll);
            got.extend(datagrams(&events).into_iter().map(|(bytes, _)| bytes[0]));
        }
        got.extend(datagrams(&lab.settle()).into_iter().map(|(bytes, _)| bytes[0]));
        got
    };
    let all: Vec<u8> = (0..100).collect();
    assert_eq!(run(Faults::none()), all);
    assert!(run(Faults { datagrams_lost: 1_000, ..Faults::none() }).is_empty());
    assert_eq!(run(Faults { datagrams_doubled: 1_000, ..Faults::none() }).len(), 200);
    let mut mixed = run(Faults { datagrams_reordered: 500, ..Faults::none() });
    assert_ne!(mixed, all);
    mixed.sort_unstable();
    assert_eq!(mixed, all);
}
