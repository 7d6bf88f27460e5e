//! One message to many connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ringway_net::{Backend, Client, Connection, Delivery, Group, ServerHandle, SlowReader};

use crate::support::server::{BACKENDS, LIMIT, connect, end, eventually, server};

/// Starts members that receive only the group's messages; their name is stored in the session.
fn start_members(
    group: &Group,
    backend: Backend,
    policy: SlowReader,
    high_water: usize,
) -> ServerHandle {
    let group = group.clone();
    let handler = async move |mut conn: Connection| {
        let name = conn.recv().await?.map_or(0, |view| view[0]);
        conn.session().insert(name);
        let _member = group.join(&conn);
        conn.write(b"!");
        while conn.recv().await?.is_some() {}
        Ok(())
    };
    let server =
        server(backend).slow_reader(policy).high_water(high_water).low_water(high_water / 2);
    server.send_queue_max(high_water * 2).start(handler).expect("the server starts")
}

fn join(handle: &ServerHandle, name: u8) -> TcpStream {
    let mut client = connect(handle);
    client.write_all(&[name]).expect("written");
    client.read_exact(&mut [0]).expect("it is a member");
    client
}

#[test]
fn every_member_on_every_core_gets_each_message_in_order() {
    for backend in BACKENDS {
        let group = Group::new();
        let handle = start_members(&group, backend, SlowReader::Pause, 1 << 20);
        let mut clients: Vec<_> = (0..9).map(|name| join(&handle, name)).collect();
        assert_eq!(group.len(), 9);
        assert!(handle.stats().cores.iter().all(|core| core.open > 0), "both cores have members");
        for message in ["one ", "two ", "three"] {
            let delivery = group.send(message).wait();
            assert_eq!(delivery.queued, 9, "{delivery:?}");
        }
        for client in &mut clients {
            let mut text = [0; 13];
            client.read_exact(&mut text).expect("three messages");
            assert_eq!(&text, b"one two three");
        }
        clients.truncate(4);
        eventually("five have left", || group.len() == 4);
        assert_eq!(group.send("x").wait().queued, 4);
        drop(clients);
        eventually("all have left", || group.is_empty());
        assert_eq!(group.send("x").wait(), Delivery::default());
        end(&handle);
    }
}

#[test]
fn predicate_selects_members_by_their_session() {
    let group = Group::new();
    let handle = start_members(&group, BACKENDS[0], SlowReader::Pause, 1 << 20);
    let mut clients: Vec<_> = (0..6).map(|name| join(&handle, name)).collect();
    let is_even =
        |peer: &ringway_net::Peer| peer.session().item::<u8>().is_some_and(|name| *name % 2 == 0);
    assert_eq!(group.send_if("even", is_even).wait().queued, 3);
    assert_eq!(group.send("all").wait().queued, 6);
    for (name, client) in clients.iter_mut().enumerate() {
        let expected = if name % 2 == 0 { "evenall" } else { "all" };
        let mut text = vec![0; expected.len()];
        client.read_exact(&mut text).expect("its messages");
        assert_eq!(text, expected.as_bytes());
    }
    end(&handle);
}

/// Sends much more than the kernel's buffers hold to a member that does not read, while another one
/// reads; returns the outcome of the messages.
fn flood(backend: Backend, policy: SlowReader) -> (Delivery, usize, bool) {
    const MESSAGE: usize = 16 * 1024;
    const MESSAGES: usize = 4_096;
    const HIGH_WATER: usize = 256 * 1024;
    let group = Group::new();
    let handle = start_members(&group, backend, policy, HIGH_WATER);
    let (mut slow, mut quick) = (join(&handle, 0), join(&handle, 1));
    let message = bytes::Bytes::from(vec![7; MESSAGE]);
    let mut total = Delivery::default();
    let mut buffer = vec![0; MESSAGE];
    for _ in 0..MESSAGES {
        total = total + group.send(message.clone()).wait();
        quick.read_exact(&mut buffer).expect("the quick member is not held up");
        let queued = queued_max(&handle, &group);
        assert!(queued <= 2 * HIGH_WATER + MESSAGE, "{queued} bytes are queued");
    }
    drop(quick);
    let still_member = !group.is_empty() && handle.sessions().count() > 1;
    slow.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket option");
    let began = Instant::now();
    let mut received = 0;
    while began.elapsed() < LIMIT {
        match slow.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => received += count,
        }
    }
    drop(slow);
    end(&handle);
    (total, received / MESSAGE, still_member)
}

/// Returns the length of the longest send queue of the group's members.
fn queued_max(handle: &ServerHandle, group: &Group) -> usize {
    let (tell, told) = mpsc::channel();
    let look = move |peer: &ringway_net::Peer| {
        tell.send(peer.queued_bytes()).expect("a listener");
        false
    };
    group.send_if("", look).wait();
    assert!(handle.sessions().count() <= 2);
    told.try_iter().max().unwrap_or(0)
}

#[test]
fn slow_member_is_closed_when_its_queue_reaches_the_bound() {
    for backend in BACKENDS {
        for policy in [SlowReader::Pause, SlowReader::Close] {
            let (total, _, still_member) = flood(backend, policy);
            assert!(!still_member, "{policy:?}: {total:?}");
            assert_eq!(total.dropped, 0, "{policy:?}: {total:?}");
            assert!(total.queued < 2 * 4_096, "{policy:?}: {total:?}");
        }
    }
}

#[test]
fn messages_for_a_slow_member_are_dropped_whole_and_it_stays_open() {
    for backend in BACKENDS {
        let (total, received, _) = flood(backend, SlowReader::Drop);
        assert!(total.dropped > 0, "{total:?}");
        assert_eq!(total.queued + total.dropped, 2 * 4_096, "{total:?}");
        assert_eq!(received, total.queued - 4_096, "all queued messages arrive, whole");
    }
}

#[test]
fn dropping_lasts_until_the_low_water_mark() {
    const HIGH_WATER: usize = 256 * 1024;
    let group = Group::new();
    let (tell, told) = mpsc::channel();
    let room = group.clone();
    let handler = async move |mut conn: Connection| {
        conn.recv().await?;
        let _member = room.join(&conn);
        conn.write(&vec![1; HIGH_WATER]);
        let above = room.send("dropped").await;
        // The queue is below the high-water mark again, but has not reached the low-water mark.
        conn.set_send_marks(2 * HIGH_WATER, HIGH_WATER / 4);
        let below = room.send("dropped, too").await;
        conn.send("mine").await?;
        std::future::poll_fn(|cx| conn.poll_drained(cx)).await?;
        tell.send((above, below, room.send("queued").await)).expect("the test waits");
        Ok(())
    };
    let server = server(BACKENDS[0]).slow_reader(SlowReader::Drop).high_water(HIGH_WATER);
    let handle = server.low_water(HIGH_WATER / 4).start(handler).expect("the server starts");
    let mut client = connect(&handle);
    client.write_all(b"?").expect("written");
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("a clean end");
    assert!(received.ends_with(b"minequeued") && received.len() == HIGH_WATER + 10);
    let (above, below, after) = told.recv_timeout(LIMIT).expect("the handler has ended");
    assert_eq!([above.dropped, below.dropped, after.queued], [1, 1, 1], "{below:?}");
    end(&handle);
}

#[test]
fn members_whose_connection_or_core_ended_are_counted() {
    let group = Group::new();
    let handle = start_members(&group, BACKENDS[0], SlowReader::Pause, 1 << 20);
    let _client = join(&handle, 0);
    let of_client = group.clone();
    let address = handle.addresses()[0].clone();
    let kept = ringway_runtime::block_on(async move {
        // One of the two memberships outlives its connection, and both outlive their core.
        let gone = Client::connect(&address).await?;
        let there = Client::connect(&address).await?;
        let kept = (of_client.join(&gone), of_client.join(&there));
        drop(gone);
        let delivery = of_client.send("x").await;
        assert_eq!((delivery.queued, delivery.closed), (2, 1), "{delivery:?}");
        Ok::<_, ringway_net::Error>(kept)
    });
    let kept = kept.expect("a core").expect("connected");
    let delivery = group.send("y").wait();
    assert_eq!((delivery.queued, delivery.closed), (1, 2), "{delivery:?}");
    drop(kept);
    assert_eq!(group.send("z").wait().closed, 0);
    end(&handle);
}

#[test]
fn members_on_a_threads_second_core_are_reached() {
    let group = Group::new();
    let handle = start_members(&Group::new(), BACKENDS[0], SlowReader::Pause, 1 << 20);
    let run = |group: Group, sends: bool| {
        let address = handle.addresses()[0].clone();
        let outcome = ringway_runtime::block_on(async move {
            let connection = Client::connect(&address).await?;
            let member = group.join(&connection);
            if sends {
                let elsewhere = std::thread::spawn({
                    let group = group.clone();
                    move || group.send("from another thread").wait()
                });
                let sent = ringway_runtime::spawn_blocking(|| elsewhere.join()).expect("room");
                let from_elsewhere = sent.await.expect("no panic").expect("no panic");
                assert_eq!((from_elsewhere.queued, from_elsewhere.closed), (1, 1));
                let from_here = group.send("from here").await;
                assert_eq!((from_here.queued, from_here.closed), (1, 1));
            }
            Ok::<_, ringway_net::Error>(member)
        });
        outcome.expect("a core").expect("connected")
    };
    let first = run(group.clone(), false);
    let second = run(group.clone(), true);
    drop(first);
    assert_eq!(group.send("nobody").wait().closed, 1, "the second core has ended, too");
    drop(second);
    assert_eq!(group.send("nobody").wait(), Delivery::default());
    end(&handle);
}

#[test]
fn panic_of_a_predicate_on_another_core_is_reported() {
    let group = Group::new();
    let handle = start_members(&group, BACKENDS[0], SlowReader::Pause, 1 << 20);
    let _clients = [0, 1].map(|name| join(&handle, name));
    let delivery = group.send_if("x", |_| panic!("a bug of the program")).wait();
    assert!(delivery.queued == 0 && delivery.cores_missed >= 1, "{delivery:?}");
    assert_eq!(group.send("unharmed").wait().queued, 2);
    end(&handle);
}
