//! Peers that do not read: what is queued for them is bounded, told, and never a hang.

mod common;

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::pin::pin;
use std::rc::Rc;

use common::{
    Driver, Verifier, echo, exchange, narrow_pair, pair, pattern, poll_once, read, read_to_end,
};
use ringway_runtime::io::{Incoming, Next, Pressure, Stream, StreamLimits};
use ringway_runtime::sync::{Notify, oneshot};
use ringway_runtime::{spawn, yield_now};

on_every_driver!(
    a_peer_that_does_not_read_brings_pressure,
    a_queue_over_its_bound_resets_the_stream,
    reading_pauses_while_the_send_queue_of_a_paced_stream_is_congested,
    pacing_that_ends_wakes_the_reader,
    two_ends_that_both_send_wait_for_neither,
    every_task_that_waits_for_room_is_woken,
    every_task_that_waits_for_bytes_is_woken,
    a_reader_who_is_behind_pauses_the_peer,
    a_callback_echoes_and_hears_the_end,
    a_paced_callback_waits_and_is_told_when_its_queue_has_drained,
    a_callback_whose_queue_overflows_is_told_and_dropped,
    a_callback_that_aborts_its_stream_is_told_and_dropped,
    a_panic_in_a_callback_closes_only_its_stream,
    a_callback_that_closes_sends_what_is_queued,
    a_callback_set_late_gets_what_was_held,
);

const SEGMENT: usize = 64 * 1024;

/// Sends whole segments of a pattern until there is pressure; how many.
fn fill(stream: &Stream, seed: usize) -> usize {
    let run = pattern(common::PATTERN_BYTES, seed);
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

/// Turns of the loop with something happening on it.
async fn busy_turns() {
    let (client, server) = pair().await;
    let server = spawn(echo(server));
    for _ in 0..50 {
        exchange(&client, b"around").await;
    }
    drop(client);
    server.await.expect("no panic").expect("no error");
}

async fn a_peer_that_does_not_read_brings_pressure(_: Driver) {
    let limits = StreamLimits::default();
    let (high, low) = (limits.send_high_water, limits.send_low_water);
    let (client, server) = narrow_pair(limits).await;
    let total = fill(&server, 4) * common::PATTERN_BYTES;
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

async fn reading_pauses_while_the_send_queue_of_a_paced_stream_is_congested(_: Driver) {
    const TOTAL: usize = 12 << 20;
    let limits = StreamLimits {
        send_high_water: 512 * 1024,
        send_low_water: 128 * 1024,
        ..StreamLimits::default()
    };
    // A view that arrives just below the mark, and what one bulk buffer holds.
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

/// Echoes without ever waiting for the queue; that must not matter.
async fn careless_echo(stream: Stream, congested: Rc<Notify>, most: Rc<Cell<usize>>) {
    while let Some(view) = stream.recv().await.expect("no error") {
        if stream.send(view) == Pressure::High {
            congested.notify_one();
        }
        most.set(most.get().max(stream.queued_bytes()));
    }
}

async fn send_all(client: Rc<Stream>, total: usize) {
    let run = pattern(common::PATTERN_BYTES, 6);
    let mut left = total;
    while left > 0 {
        let len = left.min(run.len());
        client.send(run[..len].to_vec());
        left -= len;
        client.drained().await.expect("no error");
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

/// More than both queues and the kernel's buffers hold.
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
    let total = fill(&server, 4) * common::PATTERN_BYTES;
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

/// What a callback was told, without the bytes.
#[derive(Clone, Default)]
struct Told(Rc<RefCell<Vec<String>>>);

impl Told {
    fn note(&self, incoming: &Incoming) {
        let name = match incoming {
            Incoming::Data(_) => return,
            Incoming::Drained => "drained".to_owned(),
            Incoming::Eof => "eof".to_owned(),
            Incoming::Failed(error) => format!("failed: {error}"),
        };
        self.0.borrow_mut().push(name);
    }
}

/// Says when a callback has been dropped.
struct Gone(Option<oneshot::Sender<()>>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _nobody_waits = self.0.take().map(|sender| sender.send(()));
    }
}

fn gone() -> (Gone, oneshot::Receiver<()>) {
    let (sender, receiver) = oneshot::channel();
    (Gone(Some(sender)), receiver)
}

fn echoing(stream: Stream, told: Told) -> oneshot::Receiver<()> {
    let (guard, dropped) = gone();
    stream.on_incoming(move |stream, incoming| {
        let _held = &guard;
        told.note(&incoming);
        match incoming {
            Incoming::Data(view) => stream.send(view),
            Incoming::Drained => return Next::Continue,
            Incoming::Eof | Incoming::Failed(_) => return Next::Close,
        };
        Next::Continue
    });
    dropped
}

async fn a_callback_echoes_and_hears_the_end(_: Driver) {
    let (client, server) = pair().await;
    let told = Told::default();
    let dropped = echoing(server, told.clone());
    for round in 0..20 {
        exchange(&client, &pattern(1 + round * 5_003, round)).await;
    }
    client.shutdown();
    assert!(client.recv().await.expect("no error").is_none());
    dropped.await.expect("sent by the guard");
    assert_eq!(*told.0.borrow(), ["eof"]);
}

async fn a_paced_callback_waits_and_is_told_when_its_queue_has_drained(_: Driver) {
    const TOTAL: usize = 12 << 20;
    let limits = StreamLimits {
        send_high_water: 512 * 1024,
        send_low_water: 128 * 1024,
        ..StreamLimits::default()
    };
    let (client, server) = narrow_pair(limits).await;
    server.set_paced(true);
    let told = Told::default();
    let dropped = echoing(server, told.clone());
    let client = Rc::new(client);
    let sender = spawn(send_all(client.clone(), TOTAL));
    busy_turns().await;
    let mut verifier = Verifier::new(6);
    while verifier.bytes < TOTAL {
        verifier.check(&client.recv().await.expect("no error").expect("bytes"));
    }
    sender.await.expect("no panic");
    client.shutdown();
    dropped.await.expect("sent by the guard");
    let told = told.0.borrow();
    assert_eq!(told.last().map(String::as_str), Some("eof"));
    assert!(told.len() > 1, "it was never congested");
    assert!(told[..told.len() - 1].iter().all(|name| name == "drained"));
}

async fn a_callback_whose_queue_overflows_is_told_and_dropped(_: Driver) {
    let limits = StreamLimits { send_queue_max: 1 << 20, ..StreamLimits::default() };
    let (client, server) = narrow_pair(limits).await;
    let told = Told::default();
    let (guard, dropped) = gone();
    let notes = told.clone();
    server.on_incoming(move |stream, incoming| {
        let _held = &guard;
        notes.note(&incoming);
        if let Incoming::Data(_) = incoming {
            while stream.send(pattern(SEGMENT, 1)) != Pressure::Closed {}
        }
        Next::Continue
    });
    client.write(b"flood me");
    dropped.await.expect("sent by the guard");
    assert_eq!(told.0.borrow().len(), 1);
    assert!(told.0.borrow()[0].contains("reads too slowly"), "{:?}", told.0);
    while let Ok(Some(_)) = client.recv().await {}
}

async fn a_callback_that_aborts_its_stream_is_told_and_dropped(_: Driver) {
    let (client, server) = pair().await;
    let told = Told::default();
    let (guard, dropped) = gone();
    let notes = told.clone();
    server.on_incoming(move |stream, incoming| {
        let _held = &guard;
        notes.note(&incoming);
        if let Incoming::Data(_) = incoming {
            stream.abort();
        }
        Next::Continue
    });
    client.write(b"away with it");
    dropped.await.expect("sent by the guard");
    assert_eq!(told.0.borrow().len(), 1);
    assert!(told.0.borrow()[0].starts_with("failed"), "{:?}", told.0);
    assert!(client.recv().await.is_err());
}

async fn a_panic_in_a_callback_closes_only_its_stream(_: Driver) {
    let (good, server) = pair().await;
    let _runs_on = echoing(server, Told::default());
    let (bad, server) = pair().await;
    let (guard, dropped) = gone();
    server.on_incoming(move |_, incoming| {
        let _held = &guard;
        panic!("on purpose: {incoming:?}");
    });
    bad.write(b"boom");
    dropped.await.expect("sent by the guard");
    if let Ok(end) = bad.recv().await {
        assert!(end.is_none(), "bytes nobody sent");
    }
    for _ in 0..10 {
        exchange(&good, b"untouched").await;
    }
}

async fn a_callback_that_closes_sends_what_is_queued(_: Driver) {
    let (client, server) = pair().await;
    let answer = pattern(2 << 20, 8);
    let queued = answer.clone();
    server.on_incoming(move |stream, _| {
        stream.send(queued.clone());
        Next::Close
    });
    client.write(b"?");
    assert!(read_to_end(&client).await == answer);
}

async fn a_callback_set_late_gets_what_was_held(_: Driver) {
    let (client, server) = pair().await;
    let first = poll_once(pin!(server.recv())).await; // arms the receive
    assert!(first.is_pending());
    let payload = pattern(100_000, 3);
    client.send(payload.clone());
    busy_turns().await;
    let _runs_on = echoing(server, Told::default());
    yield_now().await;
    assert!(read(&client, payload.len()).await == payload);
}
