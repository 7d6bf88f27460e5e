//! Bounds of the memory that connections keep: a connection that is behind takes no buffers from others, and a core
//! holds no more than its limit.

use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use ringway_runtime::io::{DatagramSocket, Incoming, ListenOptions, Next, Pressure, Stream};
use ringway_runtime::{Backend, Builder, CoreHandle, sleep, spawn, timeout, yield_now};

use crate::support;
use crate::support::{
    Driver, any_port, connected_to, echo, exchange, listen, narrow_pair, only, pair, pair_with,
    pattern, poll_once, read, read_to_end,
};

on_every_driver!(
    readers_who_are_behind_leave_large_buffers_to_others,
    an_echo_that_is_not_read_leaves_buffers_to_others,
    short_segments_are_counted_by_what_they_cost,
    what_is_held_is_counted_and_given_back,
);

mod bounded {
    use super::*;

    on_every_kernel_driver!(
        a_full_core_ends_slow_readers_and_nobody_else,
        a_full_core_receives_no_further_for_those_who_are_behind,
    );
}

/// Waits for turns in which something happens on the core.
async fn turns(beside: &(Stream, Stream), count: usize) {
    for _ in 0..count {
        beside.0.write(b"turn");
        assert_eq!(read(&beside.1, 4).await, b"turn");
    }
}

/// Streams that have changed to large buffers, each with many small pieces in its inbox.
async fn readers_who_are_behind_leave_large_buffers_to_others(_: Driver) {
    const SLOW: usize = 24;
    const PIECES: usize = 30;
    let listener = listen();
    let mut ends = Vec::new();
    for _ in 0..SLOW {
        let (client, server) = connected_to(&listener, only(|_| {})).await;
        assert!(poll_once(pin!(server.recv())).await.is_pending()); // arms the receive
        client.send(pattern(60_000, 1));
        client.flushed().await.expect("sent");
        ends.push((client, server));
    }
    let beside = pair().await;
    for _ in 0..PIECES {
        for (client, _) in &ends {
            client.send(pattern(5_000, 2));
        }
        turns(&beside, 2).await;
    }
    serves_others().await;
    for (client, server) in ends {
        client.shutdown();
        let got = read_to_end(&server).await;
        let pieces = got[60_000..].chunks(5_000);
        assert!(got[..60_000] == pattern(60_000, 1));
        assert_eq!(pieces.len(), PIECES);
        assert!(pieces.into_iter().all(|piece| piece == pattern(5_000, 2)));
    }
}

/// Checks that a stream of large buffers, a message and a datagram get through.
async fn serves_others() {
    let (client, server) = pair().await;
    let client = Rc::new(client);
    let server = spawn(echo(server));
    let sender = spawn(support::send_all(client.clone(), 4 << 20));
    read(&client, 4 << 20).await;
    sender.await.expect("no panic");
    exchange(&client, b"small").await;
    client.shutdown();
    server.await.expect("no panic").expect("no error");
    let bind = || DatagramSocket::bind(&any_port(), ListenOptions::default()).expect("a port");
    let (one, other) = (bind(), bind());
    one.send_to("datagram", other.local_addr());
    assert_eq!(*other.recv_from().await.expect("no error").0, *b"datagram");
}

/// A callback returns everything to a peer that does not read.
async fn an_echo_that_is_not_read_leaves_buffers_to_others(_: Driver) {
    // More than the number of receive buffers of a core, and than a turn receives.
    const MESSAGES: usize = 4_600;
    let (client, server) = narrow_pair(only(|_| {})).await;
    server.on_incoming(|stream, incoming| {
        if let Incoming::Data(view) = incoming {
            stream.send(view);
        }
        Next::Continue
    });
    let whole = pattern(512 * 1024 + MESSAGES * 64, 1);
    let (first, rest) = whole.split_at(512 * 1024);
    client.send(first.to_vec());
    let beside = pair().await;
    for message in rest.chunks(64) {
        client.write(message);
        turns(&beside, 1).await;
    }
    serves_others().await;
    assert!(read(&client, whole.len()).await == whole);
}

async fn short_segments_are_counted_by_what_they_cost(_: Driver) {
    let limits = only(|limits| limits.send_queue_max = 4 << 20);
    let bound = limits.send_queue_max;
    let (_client, server) = narrow_pair(limits).await;
    server.send(pattern(1 << 20, 1));
    yield_now().await;
    let byte = Bytes::from_static(b".");
    let mut queued = 0;
    while server.send(byte.clone()) != Pressure::Closed {
        queued += 1;
        assert!(queued <= bound, "a list of segments without a bound");
    }
    assert!(queued <= bound / 16, "{queued} segments within {bound} bytes");
}

fn held() -> usize {
    CoreHandle::current().counters().held_bytes as usize
}

async fn what_is_held_is_counted_and_given_back(_: Driver) {
    const QUEUED: usize = 4 << 20;
    let beside = pair().await;
    turns(&beside, 3).await;
    let before = held();
    let (client, server) = narrow_pair(only(|_| {})).await;
    assert!(poll_once(pin!(server.recv())).await.is_pending()); // arms the receive
    let payload = pattern(QUEUED, 1);
    for piece in payload.chunks(10_000) {
        client.send(piece.to_vec());
        client.write(b"");
    }
    turns(&beside, 10).await;
    let most = held() - before;
    // Large pieces cost their bytes, and at most half as much again where they are received.
    assert!((QUEUED / 2..=QUEUED * 3 / 2).contains(&most), "{most} bytes for {QUEUED}");
    assert!(read(&server, QUEUED).await == payload);
    client.write(b"dropped with both");
    drop((client, server));
    let datagrams = DatagramSocket::bind(&any_port(), ListenOptions::default()).expect("a port");
    for _ in 0..20 {
        datagrams.send_to(vec![0; 1_000], datagrams.local_addr());
    }
    turns(&beside, 30).await;
    drop(datagrams);
    while held() > before {
        sleep(support::ms(1)).await; // a hang is ended by the test's own limit
    }
}

/// Runs a test's body on a core that may hold `bytes` bytes.
fn with_bound<F: Future<Output = ()> + 'static>(backend: Backend, bytes: usize, body: F) {
    let builder = Builder::default().threads(1).backend(backend).held_bytes_max(bytes);
    let ran = builder.block_on(timeout(support::ms(60_000), body));
    ran.expect("the core works").expect("no hang");
}

fn a_full_core_ends_slow_readers_and_nobody_else(backend: Backend) {
    with_bound(backend, 8 << 20, async {
        let mut slow = Vec::new();
        for _ in 0..10 {
            let (client, server) = narrow_pair(only(|_| {})).await;
            let small = server.send(pattern(100_000, 1));
            assert_eq!(small, Pressure::Low);
            slow.push((client, server));
        }
        // Each of them is far within its own bound.
        let mut rounds = 0;
        let ended = loop {
            rounds += 1;
            assert!(rounds <= 100, "{} bytes are held", held());
            for (_, server) in slow.iter().skip(1) {
                server.send(pattern(200_000, 2));
            }
            yield_now().await;
            let failed = |(_, server): &&(Stream, Stream)| server.write(b".") == Pressure::Closed;
            let ended = slow.iter().find(failed);
            if let Some((_, server)) = ended {
                break server.flushed().await.expect_err("it was ended");
            }
        };
        assert!(ended.to_string().contains("core holds"), "{ended}");
        let (client, server) = slow.swap_remove(0);
        assert_ne!(server.write(b"."), Pressure::Closed, "it has little in its queue");
        server.shutdown();
        assert!(read_to_end(&client).await.starts_with(&pattern(100_000, 1)));
    });
}

fn a_full_core_receives_no_further_for_those_who_are_behind(backend: Backend) {
    const BOUND: usize = 2 << 20;
    const STREAMS: usize = 24;
    const EACH: usize = 2 << 20;
    with_bound(backend, BOUND, async {
        let mut ends = Vec::new();
        for _ in 0..STREAMS {
            // By its own bound it would receive everything, and send it.
            let limits = only(|limits| {
                limits.recv_high_water = 4 * EACH;
                limits.send_high_water = 4 * EACH;
            });
            let (client, server) = pair_with(limits.clone()).await;
            client.set_limits(Rc::new(limits));
            assert!(poll_once(pin!(server.recv())).await.is_pending()); // arms the receive
            client.send(pattern(EACH, 3));
            ends.push((client, server));
        }
        let beside = pair().await;
        turns(&beside, 300).await;
        // Each has received for one turn, or for two if it changed to large buffers.
        let bound = BOUND + STREAMS * EACH / 2;
        let sending = ends.iter().filter(|(client, _)| client.queued_bytes() > 0).count();
        let received = held().saturating_sub(sending * EACH);
        assert!(received <= bound, "{received} bytes wait for readers");
        exchange_beside(&beside).await;
        for (_, server) in &ends {
            assert!(read(server, EACH).await == pattern(EACH, 3));
        }
    });
}

async fn exchange_beside(beside: &(Stream, Stream)) {
    let echoed = pattern(100_000, 4);
    beside.0.send(echoed.clone());
    assert!(read(&beside.1, echoed.len()).await == echoed);
}
