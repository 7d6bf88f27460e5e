//! Streams: every byte arrives once and in order; both ways to finish; timeouts.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use ringway_runtime::io::{Pressure, Stream, StreamLimits};
use ringway_runtime::{spawn, timeout, yield_now};

use crate::support;
use crate::support::{
    Driver, Verifier, connected_to, echo, exchange, listen, ms, pair, pattern, poll_once, read,
    read_to_end,
};

on_every_driver!(
    an_echo_returns_every_byte,
    many_connections_keep_their_bytes_apart,
    small_pieces_of_a_turn_arrive_in_order,
    a_dropped_recv_loses_nothing,
    bytes_arrive_between_dropped_recvs,
    a_finished_sender_still_receives,
    receiving_can_be_ended_from_our_side,
    a_long_stream_arrives_complete,
    slices_outlive_their_view_and_stay_unchanged,
    held_views_starve_nobody,
);

async fn an_echo_returns_every_byte(_: Driver) {
    let (client, server) = pair().await;
    let client = Rc::new(client);
    let server = spawn(echo(server));
    let sizes = [1, 2, 63, 1_000, 16_384, 17 * 1_024 + 1, 100_000, 1 << 20, 4 << 20];
    for (seed, len) in sizes.into_iter().enumerate() {
        let payload = pattern(len, seed);
        // This runs beside the reading, because more comes back than the buffers between the ends hold.
        let sender = spawn(send_in_pieces(client.clone(), payload.clone()));
        assert!(read(&client, len).await == payload, "{len} bytes came back changed");
        sender.await.expect("no panic");
    }
    client.shutdown();
    assert!(client.recv().await.expect("no error").is_none());
    server.await.expect("no panic").expect("no error");
}

async fn send_in_pieces(stream: Rc<Stream>, bytes: Vec<u8>) {
    for piece in bytes.chunks(200_000) {
        stream.send(piece.to_vec());
        stream.drained().await.expect("the peer reads");
    }
}

async fn many_connections_keep_their_bytes_apart(_: Driver) {
    const CONNECTIONS: usize = 200;
    let listener = listen();
    let mut clients = Vec::new();
    for number in 0..CONNECTIONS {
        let (client, server) = connected_to(&listener, StreamLimits::default()).await;
        drop(spawn(echo(server)));
        clients.push(spawn(async move {
            for round in 0..20 {
                let message = pattern(1 + (number * 97 + round * 1_031) % 20_000, number + round);
                exchange(&client, &message).await;
            }
        }));
    }
    for client in clients {
        client.await.expect("no panic");
    }
}

async fn small_pieces_of_a_turn_arrive_in_order(_: Driver) {
    let (client, server) = pair().await;
    let whole = pattern(60_000, 3);
    let mut rest = &whole[..];
    let mut size = 1;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(size.min(rest.len()));
        match size % 3 {
            0 => client.send(piece.to_vec()),
            _ => client.write(piece),
        };
        client.send(Vec::new()); // nothing at all is allowed, and is nothing
        rest = after;
        size = size % 300 + 1;
    }
    assert!(read(&server, whole.len()).await == whole);
}

async fn a_dropped_recv_loses_nothing(_: Driver) {
    let (client, server) = pair().await;
    {
        let mut waiting = pin!(server.recv());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
    }
    client.write(b"first");
    client.flushed().await.expect("sent");
    assert_eq!(read(&server, 5).await, b"first");
    {
        let mut waiting = pin!(server.recv());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        client.write(b"second");
        client.flushed().await.expect("sent");
    }
    assert_eq!(read(&server, 6).await, b"second");
}

async fn bytes_arrive_between_dropped_recvs(_: Driver) {
    let (client, server) = pair().await;
    let sender = spawn(async move {
        let payload = pattern(300_000, 5);
        for piece in payload.chunks(7_001) {
            client.send(piece.to_vec());
            client.flushed().await.expect("sent");
            yield_now().await;
        }
    });
    let mut verifier = Verifier::new(5);
    let mut dropped = 0;
    loop {
        let polled = poll_once(pin!(server.recv())).await;
        match polled {
            Poll::Ready(Ok(Some(view))) => verifier.check(&view),
            Poll::Ready(end) => break assert!(end.expect("no error").is_none()),
            Poll::Pending => {
                dropped += 1;
                // Lets time pass, because the simulated clock stands still while tasks only yield.
                let waited = timeout(ms(1), std::future::pending::<()>()).await;
                assert!(waited.is_err());
            }
        }
    }
    assert_eq!(verifier.bytes, 300_000);
    assert!(dropped > 0, "every recv was ready at once");
    sender.await.expect("no panic");
}

async fn a_finished_sender_still_receives(_: Driver) {
    let (client, server) = pair().await;
    client.write(b"the question");
    client.shutdown();
    assert_eq!(client.write(b"too late"), Pressure::Closed);
    assert_eq!(read_to_end(&server).await, b"the question");
    assert!(server.recv().await.expect("the end is told again").is_none());
    let answer = pattern(500_000, 1);
    assert_ne!(server.send(answer.clone()), Pressure::Closed);
    server.shutdown();
    assert!(read_to_end(&client).await == answer);
}

async fn receiving_can_be_ended_from_our_side(_: Driver) {
    let (client, server) = pair().await;
    let server = Rc::new(server);
    let reader = spawn({
        let server = server.clone();
        async move { server.recv().await.map(|view| view.is_none()) }
    });
    yield_now().await;
    server.end_receiving();
    assert!(reader.await.expect("no panic").expect("no error"));
    server.write(b"still possible");
    assert_eq!(read(&client, 14).await, b"still possible");
}

async fn a_long_stream_arrives_complete(driver: Driver) {
    let total: usize = match driver {
        Driver::Sim => 8 << 20,
        _ => 64 << 20,
    };
    let (client, server) = pair().await;
    let sender = spawn(async move {
        let piece = pattern(support::PATTERN_BYTES * 4, 2);
        let mut left = total;
        while left > 0 {
            let len = left.min(piece.len());
            client.send(piece[..len].to_vec());
            client.drained().await.expect("the peer reads");
            left -= len;
        }
    });
    let mut verifier = Verifier::new(2);
    let mut largest = 0;
    while let Some(view) = server.recv().await.expect("no error") {
        verifier.check(&view);
        largest = largest.max(view.len());
    }
    assert_eq!(verifier.bytes, total);
    sender.await.expect("no panic");
    if driver != Driver::Sim {
        assert!(largest > 17 * 1_024, "it never changed to large buffers: {largest}");
    }
}

async fn slices_outlive_their_view_and_stay_unchanged(_: Driver) {
    let (client, server) = pair().await;
    let server = spawn(echo(server));
    let first = pattern(10_000, 1);
    client.send(first.clone());
    let mut kept = Vec::new();
    let mut place = 0;
    while place < first.len() {
        let mut view = client.recv().await.expect("no error").expect("an echo");
        let len = view.len();
        let tail = view.slice(len / 2..);
        view.advance(1);
        let inner = view.slice(..=len / 4);
        drop(view);
        kept.push((place + len / 2, tail));
        kept.push((place + 1, inner));
        place += len;
    }
    for round in 0..3_000 {
        exchange(&client, &pattern(900, round)).await;
    }
    for (start, slice) in &kept {
        assert_eq!(**slice, first[*start..*start + slice.len()]);
    }
    drop(client);
    server.await.expect("no panic").expect("no error");
}

async fn held_views_starve_nobody(_: Driver) {
    // More than the number of receive buffers of a core.
    const CONNECTIONS: usize = 64;
    const VIEWS: usize = 80;
    let listener = listen();
    let mut ends = Vec::new();
    for _ in 0..CONNECTIONS {
        ends.push(connected_to(&listener, StreamLimits::default()).await);
    }
    let mut held = Vec::new();
    for round in 0..VIEWS {
        for (number, (client, server)) in ends.iter().enumerate() {
            let seed = round * CONNECTIONS + number;
            client.send(pattern(300, seed));
            let mut got = 0;
            while got < 300 {
                let view = server.recv().await.expect("no error").expect("bytes");
                got += view.len();
                held.push((seed, got - view.len(), view));
            }
        }
    }
    assert!(held.len() >= CONNECTIONS * VIEWS);
    let (client, server) = pair().await;
    drop(spawn(echo(server)));
    for round in 0..10 {
        exchange(&client, &pattern(50_000, round)).await;
    }
    for (seed, start, view) in &held {
        assert_eq!(**view, pattern(300, *seed)[*start..*start + view.len()]);
    }
}
