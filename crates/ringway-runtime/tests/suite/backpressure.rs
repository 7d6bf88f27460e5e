//! Peers that do not read: the bytes queued for them are bounded, senders are told, and nothing hangs.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::{Pressure, Stream, StreamLimits};
use ringway_runtime::sim::SimConfig;
use ringway_runtime::sync::Notify;
use ringway_runtime::{Backend, Builder, CoreHandle, sleep, spawn, timeout, uptime, yield_now};
use socket2::SockRef;

use crate::support;
use crate::support::{
    Driver, Verifier, busy_turns, exchange_once, narrow_pair, only, pair, pair_with, pattern,
    poll_once, read, read_to_end, send_all,
};

on_every_driver!(
    a_peer_that_does_not_read_brings_pressure,
    an_empty_queue_is_below_every_mark,
    a_queue_over_its_bound_resets_the_stream,
    small_pieces_over_a_bound_below_the_marks_reset_the_stream,
    reading_pauses_while_the_send_queue_of_a_paced_stream_is_congested,
    pacing_that_ends_wakes_the_reader,
    a_congested_stream_that_changes_to_large_buffers_receives_on,
    two_ends_that_both_send_wait_for_neither,
    every_task_that_waits_for_room_is_woken,
    every_task_that_waits_for_bytes_is_woken,
    thousands_of_tasks_wait_for_one_stream_at_rest,
    a_reader_who_is_behind_pauses_the_peer,
);

mod outside {
    use super::*;

    on_every_kernel_driver!(a_batch_of_several_submissions_leaves_before_its_core_sleeps);
}

const SEGMENT: usize = 64 * 1024;

/// Longer than each of these tests takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(10);

/// A batch whose parts are all accepted at once, while nothing else wakes its core.
fn a_batch_of_several_submissions_leaves_before_its_core_sleeps(backend: Backend) {
    // A submission holds 512 KiB, and the socket takes all of them.
    const BATCH: usize = 3 * 512 * 1024 + 8;
    let (own, mut others) = UnixStream::pair().expect("two sockets");
    SockRef::from(&own).set_send_buffer_size(2 * BATCH).expect("a socket option");
    others.set_read_timeout(Some(LIMIT)).expect("a socket option");
    let peer = std::thread::spawn(move || {
        others.read_exact(&mut vec![0; BATCH])?;
        others.write_all(b"all")
    });
    let core = Builder::default().threads(1).backend(backend).spin(Duration::ZERO);
    let answer = core.block_on(async {
        let limits = StreamLimits { send_high_water: 2 * BATCH, ..StreamLimits::default() };
        let stream = Stream::adopt(own.into(), &Rc::new(limits)).expect("a connected socket");
        assert_eq!(stream.send(vec![1; BATCH]), Pressure::Low);
        timeout(2 * LIMIT, read(&stream, 3)).await.expect("an answer")
    });
    peer.join().expect("no panic").expect("the whole batch");
    assert_eq!(answer.expect("a core"), b"all");
}

/// The queue would never shrink, so the pressure would never end.
async fn an_empty_queue_is_below_every_mark(_: Driver) {
    let marks = support::only(|limits| (limits.send_high_water, limits.send_low_water) = (0, 0));
    let (client, server) = pair_with(marks).await;
    server.set_paced(true);
    server.write(b"");
    client.write(b"question");
    assert_eq!(read(&server, 8).await, b"question");
    assert_eq!(server.write(b"answer"), Pressure::High);
    assert_eq!(read(&client, 6).await, b"answer");
    client.write(b"next");
    assert_eq!(read(&server, 4).await, b"next");
}

/// Sends whole segments of a pattern until there is pressure. Returns how many.
fn fill(stream: &Stream, seed: usize) -> usize {
    let run = pattern(support::PATTERN_BYTES, seed);
    let mut sent = 0;
    loop {
        sent += 1;
        match stream.send(run.clone()) {
            Pressure::Low => assert!(sent < 1_000, "the send queue has no high-water mark"),
            Pressure::High => return sent,
            Pressure::Closed => panic!("closed before it was full"),
        }
    }
}

async fn a_peer_that_does_not_read_brings_pressure(_: Driver) {
    let limits = StreamLimits::default();
    let (high, low) = (limits.send_high_water, limits.send_low_water);
    let (client, server) = narrow_pair(limits).await;
    let total = fill(&server, 4) * support::PATTERN_BYTES;
    assert!(server.queued_bytes() >= high && server.queued_bytes() < high + SEGMENT);
    {
        let mut drained = pin!(server.drained());
        assert!(poll_once(drained.as_mut()).await.is_pending());
        busy_turns().await;
        assert!(poll_once(drained.as_mut()).await.is_pending());
        assert!(server.queued_bytes() > low);
    }
    let reader = spawn(async move {
        let mut verifier = Verifier::new(4);
        while verifier.bytes < total {
            verifier.check(&client.recv().await.expect("no error").expect("bytes"));
        }
        client
    });
    server.drained().await.expect("the peer reads now");
    assert!(server.queued_bytes() <= low);
    server.flushed().await.expect("the peer reads now");
    assert_eq!(server.queued_bytes(), 0);
    reader.await.expect("no panic");
}

async fn a_queue_over_its_bound_resets_the_stream(_: Driver) {
    let limits = StreamLimits {
        send_queue_max: 1 << 20,
        send_high_water: 256 * 1024,
        send_low_water: 64 * 1024,
        ..StreamLimits::default()
    };
    let (client, server) = narrow_pair(limits).await;
    let waiting = Rc::new(server);
    let writer = spawn({
        let server = waiting.clone();
        async move { server.flushed().await }
    });
    let mut pressures = Vec::new();
    while pressures.last() != Some(&Pressure::Closed) {
        pressures.push(waiting.send(pattern(SEGMENT, 1)));
        assert!(pressures.len() < 1_000, "the send queue has no bound");
    }
    assert!(pressures.contains(&Pressure::High), "no warning before the end");
    let error = writer.await.expect("no panic").expect_err("it was reset");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("reads too slowly"), "{error}");
    assert!(waiting.recv().await.is_err());
    drop(waiting);
    let end = loop {
        match client.recv().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "an incomplete stream must not look finished");
}

async fn small_pieces_over_a_bound_below_the_marks_reset_the_stream(_: Driver) {
    let limits = StreamLimits { send_queue_max: 4_096, ..StreamLimits::default() };
    let (_client, server) = pair_with(limits).await;
    let lengths = (1..=5).map(|_| (server.write(&[0; 1_024]), server.queued_bytes()));
    let told: Vec<_> = lengths.collect();
    assert_eq!(told[3..], [(Pressure::Low, 4_096), (Pressure::Closed, 0)], "the fifth is too much");
    assert_eq!(server.write(b"more"), Pressure::Closed);
    assert!(server.failure().is_some_and(|error| error.kind() == ErrorKind::OutOfMemory));
}

async fn reading_pauses_while_the_send_queue_of_a_paced_stream_is_congested(_: Driver) {
    const TOTAL: usize = 12 << 20;
    let limits = StreamLimits {
        send_high_water: 512 * 1024,
        send_low_water: 128 * 1024,
        ..StreamLimits::default()
    };
    // A view that arrives just below the mark, plus the content of one bulk buffer.
    let bound = limits.send_high_water + 256 * 1024;
    let (client, server) = narrow_pair(limits).await;
    server.set_paced(true);
    let congested = Rc::new(Notify::new());
    let most = Rc::new(Cell::new(0));
    let server = spawn(careless_echo(server, congested.clone(), most.clone()));
    let client = Rc::new(client);
    let sender = spawn(send_all(client.clone(), TOTAL));
    congested.notified().await; // only now does the client begin to read
    busy_turns().await;
    let mut verifier = Verifier::new(6);
    while verifier.bytes < TOTAL {
        verifier.check(&client.recv().await.expect("no error").expect("bytes"));
    }
    sender.await.expect("no panic");
    client.shutdown();
    server.await.expect("no panic");
    assert!(most.get() <= bound, "{} bytes were queued", most.get());
}

/// Echoes without ever waiting for the queue. Nothing may break.
async fn careless_echo(stream: Stream, congested: Rc<Notify>, most: Rc<Cell<usize>>) {
    while let Some(view) = stream.recv().await.expect("no error") {
        if stream.send(view) == Pressure::High {
            congested.notify_one();
        }
        most.set(most.get().max(stream.queued_bytes()));
    }
}

async fn pacing_that_ends_wakes_the_reader(_: Driver) {
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    server.set_paced(true);
    fill(&server, 1);
    client.write(b"a question");
    client.flushed().await.expect("sent");
    let server = Rc::new(server);
    let reader = spawn({
        let server = server.clone();
        async move { read(&server, 10).await }
    });
    busy_turns().await;
    assert!(!reader.is_finished(), "it reads a peer that does not read");
    server.set_paced(false);
    assert_eq!(reader.await.expect("no panic"), b"a question");
}

/// What a paced stream takes in while it waits for its peer must not depend on the sizes of the pieces in which
/// the bytes arrive.
async fn a_congested_stream_that_changes_to_large_buffers_receives_on(_: Driver) {
    // Less than the high-water mark, and more than two full buffers and what the kernel holds.
    const TOTAL: usize = 240 * 1024;
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    server.set_paced(true);
    exchange_once(&client, &server).await;
    fill(&server, 1);
    client.write(&vec![7; TOTAL]);
    let taken = timeout(LIMIT, client.flushed()).await;
    taken.expect("it goes on below its high-water mark").expect("no error");
    assert!(server.waits_for_room(), "the client has read");
    server.set_paced(false);
    assert_eq!(read(&server, TOTAL).await, vec![7; TOTAL]);
}

/// More than both queues and the kernel's buffers hold together.
const EACH_WAY: usize = 64 << 20;

async fn two_ends_that_both_send_wait_for_neither(driver: Driver) {
    let total = if driver == Driver::Sim { EACH_WAY / 8 } else { EACH_WAY };
    let (one, other) = pair().await;
    let mut halves = Vec::new();
    for stream in [Rc::new(one), Rc::new(other)] {
        halves.push(spawn(send_all(stream.clone(), total)));
        halves.push(spawn(async move {
            let mut verifier = Verifier::new(6);
            while verifier.bytes < total {
                verifier.check(&stream.recv().await.expect("no error").expect("bytes"));
            }
        }));
    }
    for half in halves {
        half.await.expect("no panic");
    }
}

async fn every_task_that_waits_for_room_is_woken(_: Driver) {
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let total = fill(&server, 4) * support::PATTERN_BYTES;
    let server = Rc::new(server);
    let mut waiting = Vec::new();
    for number in 0..5 {
        let server = server.clone();
        waiting.push(spawn(async move {
            match number {
                0 => server.flushed().await,
                _ => server.drained().await,
            }
        }));
    }
    yield_now().await;
    assert!(read(&client, total).await.len() == total);
    for task in waiting {
        task.await.expect("no panic").expect("there is room");
    }
}

async fn every_task_that_waits_for_bytes_is_woken(_: Driver) {
    let (client, server) = pair().await;
    let server = Rc::new(server);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let server = server.clone();
        waiting.push(spawn(async move { server.recv().await.expect("no error").is_none() }));
    }
    yield_now().await;
    client.shutdown();
    for task in waiting {
        assert!(task.await.expect("no panic"), "bytes nobody sent");
    }
}

async fn thousands_of_tasks_wait_for_one_stream_at_rest(_: Driver) {
    const TASKS: usize = 3_000;
    const TURNS_MAX: usize = 100;
    let (client, server) = pair().await;
    let server = Rc::new(server);
    let waiting: Vec<_> = (0..TASKS).map(|_| Rc::clone(&server)).collect();
    let waiting = waiting.into_iter().map(|server| spawn(async move { server.recv().await }));
    let waiting: Vec<_> = waiting.collect();
    let mut polls = polls_of_a_turn().await;
    for _ in 0..TURNS_MAX {
        polls = polls_of_a_turn().await;
        if polls == 1 {
            break;
        }
    }
    assert_eq!(polls, 1, "others than this task are woken again and again");
    client.shutdown();
    for task in waiting {
        assert!(task.await.expect("no panic").expect("no error").is_none(), "bytes nobody sent");
    }
}

async fn polls_of_a_turn() -> u64 {
    let polls = || CoreHandle::current().counters().polls;
    let before = polls();
    yield_now().await;
    polls() - before
}

async fn a_reader_who_is_behind_pauses_the_peer(_: Driver) {
    const TOTAL: usize = 8 << 20;
    let (client, server) = narrow_pair(StreamLimits::default()).await;
    let first = poll_once(pin!(server.recv())).await; // the receive is armed, and nobody takes
    assert!(first.is_pending());
    client.send(pattern(TOTAL, 2));
    busy_turns().await;
    assert!(
        client.queued_bytes() > TOTAL / 2,
        "the reader's core took in all but {}",
        client.queued_bytes()
    );
    client.shutdown();
    assert!(read_to_end(&server).await == pattern(TOTAL, 2));
}

/// Reads 64 bytes at a time of a megabyte, with a pause behind each. Whether the other end had enough of it within an
/// hour. A reader that has taken everything may be silent for as long as it likes.
async fn tires(pause: Duration) -> bool {
    const TOTAL: usize = 1 << 20;
    let (client, server) = pair().await;
    client.set_limits(Rc::new(only(|limits| limits.recv_high_water = 1)));
    server.send(pattern(TOTAL, 9));
    let mut verifier = Verifier::new(9);
    while verifier.bytes < TOTAL && uptime() < Duration::from_secs(3_600) {
        let Ok(Some(view)) = client.recv().await else { return true };
        verifier.check(&view);
        sleep(pause).await;
    }
    if verifier.bytes == TOTAL {
        sleep(Duration::from_secs(3_600)).await;
        server.write(b"more");
        assert_eq!(read(&client, 4).await, b"more");
    }
    false
}

#[test]
fn a_reader_that_takes_next_to_nothing_is_ended() {
    for (pause_ms, is_ended) in [(29_000, true), (800, true), (550, false), (6, false)] {
        let config = SimConfig { socket_buffer_bytes: 64, ..SimConfig::new(1) };
        let tires = Builder::simulate(config, tires(Duration::from_millis(pause_ms)));
        assert_eq!(tires.expect("not stuck"), is_ended, "{pause_ms} ms");
    }
}

/// Reads slowly, from a stream that lets it, and is dropped after a while. How much came before the end.
async fn comes_of_a_dropped_stream() -> usize {
    const TOTAL: usize = 32_000;
    let (client, server) = pair().await;
    client.set_limits(Rc::new(only(|limits| limits.recv_high_water = 1)));
    server.set_limits(Rc::new(only(|limits| limits.write_stall_timeout = None)));
    server.send(pattern(TOTAL, 9));
    let (mut server, mut came) = (Some(server), 0);
    while let Ok(Some(view)) = client.recv().await {
        came += view.len();
        sleep(Duration::from_millis(800)).await;
        server = server.filter(|_| uptime() < Duration::from_secs(300));
    }
    came
}

#[test]
fn time_without_a_stall_timeout_does_not_count_once_a_stream_is_dropped() {
    let config = SimConfig { socket_buffer_bytes: 64, ..SimConfig::new(1) };
    let came = Builder::simulate(config, comes_of_a_dropped_stream());
    assert_eq!(came.expect("not stuck"), 32_000);
}
