//! Datagram sockets: whole datagrams, their senders, and full queues.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::rc::Rc;

use ringway_runtime::io::{DatagramSocket, ListenOptions, Pressure};
use ringway_runtime::{Backend, CoreHandle, spawn, yield_now};
use socket2::SockAddr;

use crate::support;
use crate::support::{Driver, any_port, block_on, pattern};

on_every_driver!(
    datagrams_come_back_whole_with_their_sender,
    a_burst_arrives_complete,
    a_full_send_queue_is_told_and_drains,
    datagrams_that_nobody_takes_are_dropped_and_counted,
    a_port_is_free_again_after_the_drop,
    what_is_queued_on_a_dropped_socket_is_sent,
    every_task_that_waits_for_a_datagram_is_woken,
    a_datagram_that_cannot_be_sent_is_told_and_the_next_one_goes,
    a_burst_leaves_in_few_turns,
    a_dropped_socket_reaches_no_descriptor_that_follows_it,
);

mod kernel {
    use super::*;

    on_every_kernel_driver!(
        a_datagram_that_fits_no_buffer_is_told_and_not_cut,
        a_datagram_that_fits_no_buffer_hides_no_other_error,
    );
}

fn socket() -> DatagramSocket {
    DatagramSocket::bind(&any_port(), ListenOptions::default()).expect("loopback has a free port")
}

async fn echo(socket: DatagramSocket) {
    while let Ok((data, from)) = socket.recv_from().await {
        socket.send_to(data, &from.expect("an inet sender has a name"));
    }
}

async fn datagrams_come_back_whole_with_their_sender(_: Driver) {
    let (client, server) = (socket(), socket());
    let address = server.local_addr().clone();
    let server = spawn(echo(server));
    for len in [0, 1, 64, 1_400, 9_000] {
        let payload = pattern(len, len);
        client.send_to(payload.clone(), &address);
        let (data, from) = client.recv_from().await.expect("an answer");
        assert_eq!(*data, *payload);
        assert_eq!(from.as_ref(), Some(&address));
    }
    server.abort();
}

async fn a_burst_arrives_complete(_: Driver) {
    const BURST: u32 = 500;
    let (client, server) = (socket(), socket());
    for number in 0..BURST {
        let sent = client.send_to(number.to_be_bytes().to_vec(), server.local_addr());
        assert_eq!(sent, Pressure::Low);
    }
    // A network may change the order, as the simulated one does.
    let mut arrived = BTreeSet::new();
    for _ in 0..BURST {
        let (data, _) = server.recv_from().await.expect("a datagram");
        let number = u32::from_be_bytes(data[..].try_into().expect("four bytes"));
        assert!(arrived.insert(number), "{number} came twice");
    }
    assert_eq!(arrived, (0..BURST).collect());
    assert_eq!(server.dropped(), 0);
}

async fn a_full_send_queue_is_told_and_drains(_: Driver) {
    let (client, server) = (socket(), socket());
    let mut queued = 0;
    while client.send_to("one", server.local_addr()) == Pressure::Low {
        queued += 1;
        assert!(queued <= 100_000, "the send queue has no bound");
    }
    client.drained().await;
    assert_eq!(client.send_to("more", server.local_addr()), Pressure::Low);
    for _ in 0..queued {
        assert_eq!(*server.recv_from().await.expect("a datagram").0, *b"one");
    }
    assert_eq!(*server.recv_from().await.expect("a datagram").0, *b"more");
}

async fn datagrams_that_nobody_takes_are_dropped_and_counted(_: Driver) {
    const SENT: u64 = 3_000;
    let (client, lazy, prompt) = (socket(), socket(), socket());
    for _ in 0..SENT {
        client.drained().await;
        assert_eq!(client.send_to("waste", lazy.local_addr()), Pressure::Low);
    }
    // Datagrams that were sent after them have arrived several times, so they have arrived too.
    for _ in 0..50 {
        client.drained().await;
        client.send_to("probe", prompt.local_addr());
        assert_eq!(*prompt.recv_from().await.expect("a datagram").0, *b"probe");
    }
    let dropped = lazy.dropped();
    assert!(dropped > 0, "3,000 datagrams were held");
    let mut held = 0;
    while let Ok(Ok((data, _))) =
        ringway_runtime::timeout(std::time::Duration::from_millis(50), lazy.recv_from()).await
    {
        assert_eq!(*data, *b"waste");
        held += 1;
    }
    assert!(held > 0 && held + dropped <= SENT, "{held} held, {dropped} dropped");
    client.send_to("fresh", lazy.local_addr());
    assert_eq!(*lazy.recv_from().await.expect("it goes on").0, *b"fresh");
}

async fn a_port_is_free_again_after_the_drop(_: Driver) {
    let first = socket();
    let address = first.local_addr().clone();
    let again = DatagramSocket::bind(&address, ListenOptions::default());
    assert_eq!(again.expect_err("taken").kind(), ErrorKind::AddrInUse);
    drop(first);
    // The kernel closes the socket in one of the next turns, and a probe makes turns.
    let (client, server) = (socket(), socket());
    for _ in 0..100 {
        client.send_to("turn", server.local_addr());
        server.recv_from().await.expect("a datagram");
        if DatagramSocket::bind(&address, ListenOptions::default()).is_ok() {
            return;
        }
    }
    panic!("the port is still taken");
}

async fn what_is_queued_on_a_dropped_socket_is_sent(_: Driver) {
    const QUEUED: u32 = 100;
    let (client, server) = (socket(), socket());
    for number in 0..QUEUED {
        client.send_to(number.to_be_bytes().to_vec(), server.local_addr());
    }
    drop(client);
    let mut arrived = BTreeSet::new();
    for _ in 0..QUEUED {
        let (data, _) = server.recv_from().await.expect("a datagram");
        arrived.insert(u32::from_be_bytes(data[..].try_into().expect("four bytes")));
    }
    assert_eq!(arrived, (0..QUEUED).collect());
}

async fn every_task_that_waits_for_a_datagram_is_woken(_: Driver) {
    let (client, server) = (socket(), Rc::new(socket()));
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let server = server.clone();
        waiting.push(spawn(async move { server.recv_from().await.expect("a datagram").0.len() }));
    }
    yield_now().await;
    for _ in 0..3 {
        client.send_to("one", server.local_addr());
    }
    for task in waiting {
        assert_eq!(task.await.expect("no panic"), 3);
    }
}

async fn a_datagram_that_cannot_be_sent_is_told_and_the_next_one_goes(driver: Driver) {
    if driver == Driver::Sim {
        return; // its datagrams have no bound
    }
    let (one, other) = (socket(), socket());
    one.send_to(pattern(70_000, 1), other.local_addr());
    one.send_to("short", other.local_addr());
    let error = one.recv_from().await.expect_err("longer than any datagram");
    assert_eq!((error.raw_os_error(), one.unsent()), (Some(libc::EMSGSIZE), 1));
    assert_eq!(&*other.recv_from().await.expect("the next one").0, b"short");
    other.send_to("an answer", one.local_addr());
    assert_eq!(&*one.recv_from().await.expect("it goes on").0, b"an answer");
}

async fn a_burst_leaves_in_few_turns(_: Driver) {
    const BURST: usize = 500;
    let (client, server) = (socket(), socket());
    let before = CoreHandle::current().counters();
    for _ in 0..BURST {
        assert_eq!(client.send_to("one of many", server.local_addr()), Pressure::Low);
    }
    for _ in 0..BURST {
        server.recv_from().await.expect("a datagram");
    }
    let turns = CoreHandle::current().counters().turns - before.turns;
    assert!(turns < BURST as u64 / 2, "{turns} turns for {BURST} datagrams");
}

/// Each round's sockets get the descriptors of the round before. They must neither send nor receive datagrams
/// of the sockets before them.
async fn a_dropped_socket_reaches_no_descriptor_that_follows_it(_: Driver) {
    let sink = socket();
    for round in 0..20_u8 {
        let dropped = socket();
        for _ in 0..200 {
            dropped.send_to("of a dropped socket", sink.local_addr());
        }
        drop(dropped);
        let (client, server) = support::pair().await;
        support::exchange_with_echo(client, server, &[round; 100]).await;
        let (near, far) = (socket(), socket());
        near.send_to(vec![round], far.local_addr());
        assert_eq!(*far.recv_from().await.expect("a datagram").0, [round]);
    }
}

/// Unix datagrams may be longer than those of UDP.
fn a_datagram_that_fits_no_buffer_is_told_and_not_cut(backend: Backend) {
    let name = format!("ringway-oversized-{}-{backend}", std::process::id());
    let ran = block_on(backend, async move {
        let address = SockAddr::unix(format!("\0{name}")).expect("a short name");
        let socket = DatagramSocket::bind(&address, ListenOptions::default()).expect("bound");
        let sender = UnixDatagram::unbound().expect("a socket");
        let receiver = UnixAddr::from_abstract_name(&name).expect("a short name");
        for len in [LONGEST, LONGEST + 1, 3] {
            let sent =
                sender.send_to_addr(&pattern(len, 3), &receiver).expect("the kernel takes it");
            assert_eq!(sent, len);
            match socket.recv_from().await {
                Ok((data, _)) => assert!(len <= LONGEST && *data == *pattern(len, 3), "{len}"),
                Err(error) => {
                    assert!(len > LONGEST, "{error}");
                    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
                }
            }
        }
        assert_eq!(socket.dropped(), 1);
    });
    ran.expect("no core failed");
}

/// `dropped` counts a datagram that was too long, so this error takes no other error's place.
fn a_datagram_that_fits_no_buffer_hides_no_other_error(backend: Backend) {
    let name = format!("ringway-hides-{}-{backend}", std::process::id());
    let ran = block_on(backend, async move {
        let [address, nobody] = ["", "-nobody"]
            .map(|end| SockAddr::unix(format!("\0{name}{end}")).expect("a short name"));
        let socket = DatagramSocket::bind(&address, ListenOptions::default()).expect("bound");
        socket.send_to("lost", &nobody);
        while socket.unsent() == 0 {
            yield_now().await;
        }
        let sender = UnixDatagram::unbound().expect("a socket");
        let receiver = UnixAddr::from_abstract_name(&name).expect("a short name");
        sender.send_to_addr(&vec![3; LONGEST + 1], &receiver).expect("the kernel takes it");
        while socket.dropped() == 0 {
            yield_now().await;
        }
        let error = socket.recv_from().await.expect_err("nobody was there");
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
    });
    ran.expect("no core failed");
}

/// The promises of the documentation.
const LONGEST: usize = 128 * 1024;
