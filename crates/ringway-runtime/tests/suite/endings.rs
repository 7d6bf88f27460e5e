//! Streams end by their owner, by their peer, by their timeouts, or with their core.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::{Incoming, Next, Pressure, Stream, StreamLimits, abort_dropped_streams};
use ringway_runtime::sync::oneshot;
use ringway_runtime::{Backend, now, sleep, sleep_until, spawn, timeout, yield_now};
use socket2::SockRef;

use crate::support;
use crate::support::{
    Driver, Verifier, block_on, busy_turns, echo, exchange, exchange_once, ms, narrow_pair, only,
    pair, pair_with, pattern, poll_once, read, read_to_end, send_all,
};

on_every_driver!(
    an_abort_resets_the_peer,
    an_abort_closes_a_stream_that_is_still_held,
    streams_without_a_handle_can_be_aborted,
    a_dropped_stream_sends_what_is_queued,
    a_dropped_stream_sends_to_a_peer_that_is_still_sending,
    a_dropped_stream_whose_peer_stays_is_closed,
    guards_are_dropped_when_the_descriptor_is_closed,
    a_stream_dropped_unread_ends_its_peer,
    a_quiet_stream_reaches_its_idle_timeout,
    a_busy_stream_reaches_its_lifetime,
    a_stalled_send_reaches_its_timeout,
    a_stalled_send_reaches_its_timeout_before_other_deadlines,
    bytes_that_come_do_not_put_the_stall_timeout_off,
    a_part_of_a_send_is_progress,
    timeouts_can_be_set_later,
    endless_timeouts_never_pass,
);

mod outside {
    use super::*;

    on_every_kernel_driver!(
        a_send_told_of_late_is_not_activity,
        the_end_of_a_core_finishes_its_streams,
        the_end_of_a_core_finishes_streams_that_somebody_holds,
        what_came_before_a_reset_is_received,
        a_callback_gets_what_came_before_a_reset,
        a_stream_that_was_reset_is_closed,
    );
}

async fn an_abort_resets_the_peer(_: Driver) {
    let (client, server) = pair().await;
    exchange_once(&client, &server).await;
    client.abort();
    let own = client.recv().await.expect_err("we aborted it");
    assert_eq!(own.kind(), ErrorKind::ConnectionAborted);
    assert_eq!(client.write(b"more"), Pressure::Closed);
    drop(client);
    let error = server.recv().await.expect_err("the peer aborted");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let again = server.recv().await.expect_err("it stays so");
    assert_eq!(again.kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.write(b"into the void"), Pressure::Closed);
    assert!(server.drained().await.is_err());
}

async fn a_dropped_stream_sends_what_is_queued(_: Driver) {
    let (client, server) = pair().await;
    let payload = pattern(3 << 20, 9);
    client.send(payload.clone());
    drop(client);
    assert!(read_to_end(&server).await == payload);
}

async fn guards_are_dropped_when_the_descriptor_is_closed(_: Driver) {
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let mut closed = Vec::new();
    for _ in 0..2 {
        let (guard, dropped) = oneshot::channel::<()>();
        server.hold_until_closed(guard);
        closed.push(dropped);
    }
    let payload = pattern(3 << 20, 9);
    server.send(payload.clone());
    drop(server);
    for _ in 0..20 {
        yield_now().await;
    }
    let mut first = pin!(&mut closed[0]);
    assert!(poll_once(first.as_mut()).await.is_pending(), "closed with a full queue");
    assert!(read_to_end(&client).await == payload);
    drop(client);
    for closed in closed {
        assert!(closed.await.is_err(), "nobody sends on it");
    }
}

async fn a_stream_dropped_unread_ends_its_peer(_: Driver) {
    let (client, server) = pair().await;
    exchange_once(&client, &server).await;
    client.write(b"nobody will read this");
    client.flushed().await.expect("sent");
    drop(server);
    // The stream finished or was reset: it depends on whether the bytes were still in the kernel.
    if let Ok(view) = client.recv().await {
        assert!(view.is_none());
    }
}

/// The error of a timeout names the timeout.
async fn ends_by(server: &Stream, name: &str) {
    let error = server.recv().await.expect_err("a timeout");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains(name), "{error}");
    assert_eq!(server.write(b"late"), Pressure::Closed);
}

async fn a_quiet_stream_reaches_its_idle_timeout(driver: Driver) {
    let idle = ms(40);
    let (client, server) = pair_with(only(|limits| limits.idle_timeout = Some(idle))).await;
    let start = server.last_active();
    ends_by(&server, "idle").await;
    assert!(now() - start >= idle);
    if driver == Driver::Sim {
        assert!(now() - start <= idle + ms(1));
    }
    drop(server);
    assert!(client.recv().await.is_err(), "the peer learns of it");
}

// Only a virtual clock makes "in time" certain.
#[test]
fn activity_puts_the_idle_timeout_off() {
    support::run(Driver::Sim, activity_beside_an_idle_timeout);
}

async fn activity_beside_an_idle_timeout(_: Driver) {
    let idle = ms(40);
    let (client, server) = pair_with(only(|limits| limits.idle_timeout = Some(idle))).await;
    let start = now();
    for tick in 1..=10 {
        sleep_until(start + ms(30) * tick).await;
        exchange_once(&client, &server).await;
    }
    let last = server.last_active();
    ends_by(&server, "idle").await;
    let waited = now() - last;
    assert!(waited >= idle && waited <= idle + ms(1), "{waited:?}");
}

async fn a_busy_stream_reaches_its_lifetime(_: Driver) {
    let lifetime = ms(60);
    let (client, server) = pair_with(only(|limits| limits.lifetime = Some(lifetime))).await;
    let start = now();
    let busy = spawn(async move {
        while client.write(b"tick") != Pressure::Closed {
            let ended = timeout(ms(5), client.recv()).await;
            if ended.is_ok_and(|end| end.is_err()) {
                return;
            }
        }
    });
    let error = loop {
        match server.recv().await {
            Ok(view) => assert_eq!(view.expect("not finished").len() % 4, 0),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("lifetime"), "{error}");
    assert!(now() - start + ms(1) >= lifetime);
    drop(server);
    busy.await.expect("no panic");
}

async fn a_stalled_send_reaches_its_timeout(_: Driver) {
    let stall = ms(50);
    let limits = only(|limits| limits.write_stall_timeout = Some(stall));
    let (client, server) = narrow_pair(limits).await;
    server.send(pattern(8 << 20, 1));
    let error = server.flushed().await.expect_err("nobody reads");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("write-stall"), "{error}");
    assert!(now() - server.last_active() >= stall);
    drop(server);
    let mut verifier = Verifier::new(1);
    let end = loop {
        match client.recv().await {
            Ok(Some(view)) => verifier.check(&view),
            end => break end,
        }
    };
    assert!(end.is_err(), "an incomplete stream must not look finished");
}

async fn timeouts_can_be_set_later(_: Driver) {
    let (_client, server) = pair().await;
    server.set_limits(Rc::new(only(|limits| limits.idle_timeout = Some(ms(20)))));
    ends_by(&server, "idle").await;
}

async fn an_abort_closes_a_stream_that_is_still_held(_: Driver) {
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let (guard, closed) = oneshot::channel::<()>();
    server.hold_until_closed(guard);
    server.send(pattern(3 << 20, 1));
    yield_now().await;
    server.abort();
    assert!(closed.await.is_err(), "nobody sends on it");
    while let Ok(view) = client.recv().await {
        assert!(view.is_some(), "an incomplete stream must not look finished");
    }
    // The handle returns the error, and reaches no other socket's descriptor.
    assert_eq!(server.write(b"more"), Pressure::Closed);
    assert!(server.recv().await.is_err() && server.flushed().await.is_err());
    assert!(server.peer_addr().is_err() && server.local_addr().is_err());
    assert!(server.with_socket(|_| Ok(())).is_err());
    server.abort();
    server.shutdown();
    server.end_receiving();
    busy_turns().await;
}

async fn streams_without_a_handle_can_be_aborted(_: Driver) {
    let patient = StreamLimits { write_stall_timeout: None, ..StreamLimits::default() };
    let (client, server) = narrow_pair(patient.clone()).await;
    let (other_client, held) = narrow_pair(patient).await;
    let (guard, closed) = oneshot::channel::<()>();
    server.hold_until_closed(guard);
    server.send(pattern(3 << 20, 1));
    drop(server);
    yield_now().await;
    abort_dropped_streams();
    assert!(closed.await.is_err(), "nobody sends on it");
    while let Ok(view) = client.recv().await {
        assert!(view.is_some(), "an incomplete stream must not look finished");
    }
    exchange_once(&other_client, &held).await;
}

/// The peer reads only after everything that it had to send has been taken.
async fn a_dropped_stream_sends_to_a_peer_that_is_still_sending(_: Driver) {
    const UPLOAD: usize = 8 << 20;
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let client = Rc::new(client);
    let upload = spawn(send_all(client.clone(), UPLOAD));
    assert!(server.recv().await.expect("no error").is_some());
    let answer = pattern(2 << 20, 3);
    server.send(answer.clone());
    drop(server);
    upload.await.expect("no panic");
    assert!(read_to_end(&client).await == answer, "refused, because ...");
}

async fn a_dropped_stream_whose_peer_stays_is_closed(driver: Driver) {
    for trickles in [false, true] {
        let (client, server) = pair().await;
        let (guard, closed) = oneshot::channel::<()>();
        server.hold_until_closed(guard);
        exchange_once(&client, &server).await;
        server.write(b"bye");
        assert_eq!(read(&client, 3).await, b"bye");
        let dropped = now();
        drop(server);
        assert!(client.recv().await.expect("no error").is_none(), "told at once");
        let trickle = spawn(async move {
            while trickles && client.write(b".") != Pressure::Closed {
                sleep(ms(100)).await;
            }
            client
        });
        assert!(closed.await.is_err(), "nobody sends on it");
        drop(trickle);
        if driver == Driver::Sim {
            let patience = if trickles { ms(10_000) } else { ms(1_000) };
            let took = now() - dropped;
            assert!(took >= patience && took <= patience + ms(2), "{trickles}: {took:?}");
        }
        if driver != Driver::Sim {
            return; // a trickle takes ten seconds of everybody's time
        }
    }
}

// Only a virtual clock can afford such times.
#[test]
fn a_dropped_stream_sends_for_as_long_as_its_peer_reads() {
    support::run(Driver::Sim, a_slow_reader_of_a_dropped_stream);
}

async fn a_slow_reader_of_a_dropped_stream(_: Driver) {
    const STEP: usize = 16 * 1024;
    let (client, server) = pair().await;
    server.send(pattern(8 << 20, 6));
    drop(server);
    let start = now();
    let mut verifier = Verifier::new(6);
    let mut next = STEP;
    while let Some(view) = client.recv().await.expect("no error") {
        verifier.check(&view);
        if verifier.bytes >= next {
            next += STEP;
            sleep(ms(1_000)).await;
        }
    }
    assert_eq!(verifier.bytes, 8 << 20);
    assert!(now() - start > ms(60_000), "{:?}: too fast to show anything", now() - start);
}

async fn a_stalled_send_reaches_its_timeout_before_other_deadlines(driver: Driver) {
    let limits = only(|limits| {
        limits.write_stall_timeout = Some(ms(50));
        limits.idle_timeout = Some(ms(3_600_000));
        limits.lifetime = Some(ms(7_200_000));
    });
    let (_client, server) = narrow_pair(limits).await;
    let start = now();
    server.send(pattern(8 << 20, 1));
    let error = server.flushed().await.expect_err("nobody reads");
    assert!(error.to_string().contains("write-stall"), "{error}");
    if driver == Driver::Sim {
        assert!(now() - start <= ms(51), "{:?}", now() - start);
    }
}

async fn bytes_that_come_do_not_put_the_stall_timeout_off(driver: Driver) {
    let limits = only(|limits| limits.write_stall_timeout = Some(ms(50)));
    let (client, server) = narrow_pair(limits).await;
    let server = Rc::new(server);
    let trickle = spawn(async move {
        while client.write(b".") != Pressure::Closed {
            sleep(ms(10)).await;
        }
    });
    let reader = spawn({
        let server = server.clone();
        async move { while let Ok(Some(_)) = server.recv().await {} }
    });
    let start = now();
    server.send(pattern(8 << 20, 1));
    let error = server.flushed().await.expect_err("nobody reads");
    assert!(error.to_string().contains("write-stall"), "{error}");
    if driver == Driver::Sim {
        assert!(now() - start <= ms(52), "{:?}", now() - start);
    }
    reader.await.expect("no panic");
    trickle.abort();
}

async fn a_part_of_a_send_is_progress(_: Driver) {
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    server.send(pattern(12 << 20, 6));
    let handed_over = now();
    let mut verifier = Verifier::new(6);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        verifier.check(&client.recv().await.expect("no error").expect("bytes"));
        let last = server.last_active();
        if last > handed_over && seen.last() != Some(&last) {
            assert!(server.queued_bytes() > 0, "it was the end and no part");
            seen.push(last);
        }
        sleep(ms(1)).await;
    }
}

async fn endless_timeouts_never_pass(_: Driver) {
    let endless = || {
        only(|limits| {
            limits.write_stall_timeout = Some(Duration::MAX);
            limits.idle_timeout = Some(Duration::MAX);
            limits.lifetime = Some(Duration::MAX);
        })
    };
    let (client, server) = pair_with(endless()).await;
    client.set_limits(Rc::new(endless()));
    drop(spawn(echo(server)));
    exchange(&client, &pattern(1 << 20, 1)).await;
    client.set_limits(Rc::new(only(|limits| limits.idle_timeout = Some(ms(20)))));
    let error = client.recv().await.expect_err("a timeout");
    assert!(error.to_string().contains("idle"), "{error}");
}

/// A connection to a socket of the standard library, so nothing that this end does runs on the core.
async fn connected_outside() -> (Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").into();
    let stream = Stream::connect(&address).await.expect("connect");
    let (peer, _) = listener.accept().expect("it is there already");
    peer.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    (stream, peer)
}

const PATIENCE: Duration = Duration::from_secs(30);

fn a_send_told_of_late_is_not_activity(backend: Backend) {
    let ended = block_on(backend, async {
        let (stream, _peer) = connected_outside().await;
        stream.set_limits(Rc::new(only(|limits| limits.idle_timeout = Some(ms(100)))));
        let handed_over = now();
        stream.write(b"the last bytes");
        let error = stream.recv().await.expect_err("a timeout");
        assert!(error.to_string().contains("idle"), "{error}");
        assert!(stream.last_active() <= handed_over, "its end was told of when the timer fired");
    });
    ended.expect("no hang");
}

fn the_end_of_a_core_finishes_its_streams(backend: Backend) {
    let peer = block_on(backend, async {
        let (stream, peer) = connected_outside().await;
        stream.write(b"bye");
        drop(stream);
        for _ in 0..20 {
            yield_now().await;
        }
        peer // which ends nothing
    });
    ends_cleanly(peer.expect("no hang"));
}

fn the_end_of_a_core_finishes_streams_that_somebody_holds(backend: Backend) {
    let peer = block_on(backend, async {
        let (stream, peer) = connected_outside().await;
        stream.write(b"bye");
        SOMEBODY.set(Some(stream));
        peer
    });
    ends_cleanly(peer.expect("no hang"));
    let stream = SOMEBODY.take().expect("kept");
    assert_eq!(stream.write(b"late"), Pressure::Closed);
}

thread_local! {
    /// A value that outlives its core.
    static SOMEBODY: Cell<Option<Stream>> = const { Cell::new(None) };
}

/// A core that gives up a connection resets it instead.
fn ends_cleanly(mut peer: TcpStream) {
    let mut got = Vec::new();
    peer.read_to_end(&mut got).expect("no reset");
    assert_eq!(got, b"bye");
}

/// A peer that has sent this many bytes and reset the connection, before anything was received.
async fn reset_after(bytes: usize) -> Stream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let bound = listener.local_addr().expect("bound").into();
    let stream = Stream::connect(&bound).await.expect("it listens");
    let mut peer = listener.accept().expect("it was connected").0;
    peer.write_all(&pattern(bytes, 5)).expect("it fits the window");
    SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("a socket option");
    stream
}

/// The way in which the stream learns of the reset.
#[derive(Clone, Copy, Debug)]
enum Found {
    Receiving,
    Sending,
    Finishing,
}

async fn find(found: Found, stream: &Stream) {
    match found {
        Found::Receiving => return,
        Found::Sending => drop(stream.write(b"nobody takes it")),
        Found::Finishing => stream.shutdown(),
    }
    while stream.failure().is_none() {
        yield_now().await;
    }
    assert_eq!(stream.write(b"late"), Pressure::Closed);
    assert_eq!(stream.queued_bytes(), 0, "nothing leaves any more");
    stream.flushed().await.expect_err("it has failed");
}

/// Receives pattern 5 to its end, which is not a clean one.
async fn read_to_reset(stream: &Stream) -> usize {
    let mut verifier = Verifier::new(5);
    while let Ok(view) = stream.recv().await {
        verifier.check(&view.expect("no clean end"));
    }
    verifier.bytes
}

fn what_came_before_a_reset_is_received(backend: Backend) {
    const BYTES: usize = 50_000;
    for found in [Found::Receiving, Found::Sending, Found::Finishing] {
        let ran = block_on(backend, async move {
            let stream = reset_after(BYTES).await;
            find(found, &stream).await;
            assert_eq!(read_to_reset(&stream).await, BYTES, "{found:?}");
            assert!(stream.failure().is_some());
        });
        ran.expect("no core failed");
    }
}

fn a_callback_gets_what_came_before_a_reset(backend: Backend) {
    const BYTES: usize = 50_000;
    let ran = block_on(backend, async {
        let stream = Rc::new(reset_after(BYTES).await);
        find(Found::Sending, &stream).await;
        let (tell, told) = oneshot::channel();
        let (mut tell, mut verifier) = (Some(tell), Verifier::new(5));
        stream.set_callback(move |incoming| {
            match incoming {
                Incoming::Data(view) => verifier.check(&view),
                Incoming::Failed(_) => {
                    let tell = tell.take().expect("the last call");
                    tell.send(verifier.bytes).expect("the test waits");
                }
                other => panic!("{other:?}"),
            }
            Next::Continue
        });
        assert_eq!(told.await.expect("it is told"), BYTES);
    });
    ran.expect("no core failed");
}

/// Bytes that nobody takes keep a lost connection open within the bound of the inbox, until the owner gives
/// the stream up.
fn a_stream_that_was_reset_is_closed(backend: Backend) {
    type Way = fn(Stream) -> Option<Stream>;
    let ways: [(usize, Way); 4] = [
        (1 << 20, Some), // all of it is taken in
        (1_000, |_dropped| None),
        (1_000, |stream| {
            stream.abort();
            Some(stream)
        }),
        (1_000, |stream| {
            stream.end_receiving();
            Some(stream)
        }),
    ];
    for (recv_high_water, give_up) in ways {
        let ran = block_on(backend, async move {
            let stream = reset_after(50_000).await;
            stream.set_limits(Rc::new(only(|limits| limits.recv_high_water = recv_high_water)));
            let (guard, closed) = oneshot::channel::<()>();
            stream.hold_until_closed(guard);
            find(Found::Sending, &stream).await;
            let _kept = give_up(stream);
            closed.await.expect_err("nobody sends on it");
        });
        ran.expect("no core failed");
    }
}
