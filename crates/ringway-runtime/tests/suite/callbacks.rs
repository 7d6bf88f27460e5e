//! Callbacks that serve streams: the events that they receive. A panic of one affects only its stream.

use std::cell::{Cell, RefCell};
use std::panic::panic_any;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use ringway_runtime::io::{Incoming, Next, Pressure, Stream, StreamLimits};
use ringway_runtime::sync::oneshot;
use ringway_runtime::{now_exact, spawn, yield_now};
use std::pin::pin;

use crate::support::{
    Driver, Verifier, busy_turns, echo, exchange, narrow_pair, pair, pattern, poll_once, read,
    read_to_end, send_all,
};

on_every_driver!(
    a_callback_echoes_and_hears_the_end,
    a_paced_callback_waits_and_is_told_when_its_queue_has_drained,
    a_callback_whose_queue_overflows_is_told_and_dropped,
    a_callback_hears_of_a_failure_after_the_end,
    a_callback_that_aborts_its_stream_is_told_and_dropped,
    a_callback_that_ends_receiving_gets_the_end_and_nothing_behind_it,
    a_panic_in_a_callback_resets_only_its_stream,
    a_callback_whose_destructor_panics_ends_only_its_stream,
    a_panic_whose_payload_panics_ends_only_its_stream,
    a_callback_that_closes_sends_what_is_queued,
    a_callback_set_late_gets_what_was_held,
    a_callback_can_be_replaced,
    a_callback_can_replace_itself,
    an_owner_of_sent_bytes_may_do_anything_when_it_is_dropped,
    a_waker_may_do_anything_when_it_is_dropped,
    a_waker_that_panics_ends_only_its_stream,
    a_waker_that_panics_keeps_no_other_waiter_from_the_end,
    a_callback_set_by_one_that_knows_of_the_end_is_told_too,
    callbacks_that_replace_each_other_at_the_end_do_so_a_few_times,
);

const SEGMENT: usize = 64 * 1024;

/// An event of a callback, without the bytes.
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

/// Reports when a callback has been dropped.
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

async fn a_panic_in_a_callback_resets_only_its_stream(_: Driver) {
    let (bad, server) = pair().await;
    let (guard, dropped) = gone();
    ends_alone(
        bad,
        dropped,
        move |stream| {
            stream.on_incoming(move |stream, incoming| {
                let _held = &guard;
                stream.write(b"half of an ans");
                panic!("on purpose: {incoming:?}");
            });
        },
        server,
    )
    .await;
}

/// Gives the stream a callback that panics at its first bytes. The stream must end with a reset, and another
/// connection must go on.
async fn ends_alone(
    bad: Stream,
    dropped: oneshot::Receiver<()>,
    serve: impl FnOnce(Stream),
    server: Stream,
) {
    let (good, other) = pair().await;
    let _runs_on = echoing(other, Told::default());
    serve(server);
    bad.write(b"boom");
    dropped.await.expect("sent by the guard");
    let end = loop {
        match bad.recv().await {
            Ok(Some(_half)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "half an answer must not look like a whole one");
    for _ in 0..10 {
        exchange(&good, b"untouched").await;
    }
}

/// Panics in its destructor, up to a number of times.
struct Relentless(u32);

impl Drop for Relentless {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            panic_any(Relentless(left));
        }
    }
}

async fn a_panic_whose_payload_panics_ends_only_its_stream(_: Driver) {
    let (bad, server) = pair().await;
    let (guard, dropped) = gone();
    ends_alone(
        bad,
        dropped,
        move |stream| {
            stream.on_incoming(move |_, _| {
                let _held = &guard;
                panic_any(Relentless(2));
            });
        },
        server,
    )
    .await;
}

async fn a_callback_whose_destructor_panics_ends_only_its_stream(_: Driver) {
    let (good, other) = pair().await;
    let _runs_on = echoing(other, Told::default());
    let (bad, server) = pair().await;
    let (guard, dropped) = gone();
    let panics = Relentless(1);
    server.on_incoming(move |_, _| {
        let _held = (&guard, &panics);
        Next::Close
    });
    bad.write(b"boom");
    dropped.await.expect("sent by the guard");
    assert!(bad.recv().await.expect("no error").is_none(), "its stream is closed");
    for _ in 0..10 {
        exchange(&good, b"untouched").await;
    }
    let (fresh, server) = pair().await;
    drop(spawn(echo(server)));
    exchange(&fresh, b"new ones are served").await;
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

async fn a_callback_hears_of_a_failure_after_the_end(_: Driver) {
    let limits = StreamLimits { send_queue_max: 1 << 20, ..StreamLimits::default() };
    let (client, server) = narrow_pair(limits).await;
    let told = Told::default();
    let (guard, dropped) = gone();
    let notes = told.clone();
    server.on_incoming(move |stream, incoming| {
        let _held = &guard;
        notes.note(&incoming);
        if let Incoming::Eof = incoming {
            while stream.send(pattern(SEGMENT, 1)) != Pressure::Closed {}
        }
        Next::Continue
    });
    client.shutdown();
    dropped.await.expect("sent by the guard");
    let told = told.0.borrow();
    assert_eq!((told.len(), told[0].as_str()), (2, "eof"));
    assert!(told[1].contains("reads too slowly"), "{told:?}");
}

async fn a_callback_that_ends_receiving_gets_the_end_and_nothing_behind_it(_: Driver) {
    let (client, server) = pair().await;
    let told = Rc::new(RefCell::new(Vec::new()));
    let notes = told.clone();
    server.on_incoming(move |stream, incoming| {
        notes.borrow_mut().push(format!("{incoming:?}"));
        match incoming {
            Incoming::Data(_) => stream.end_receiving(),
            Incoming::Eof => drop(stream.write(b"ended")),
            _ => {}
        }
        Next::Continue
    });
    client.write(b"one");
    assert_eq!(read(&client, 5).await, b"ended");
    client.write(b"two");
    client.flushed().await.expect("sent");
    busy_turns().await;
    assert_eq!(*told.borrow(), ["Data(View(3 bytes))", "Eof"]);
}

async fn a_callback_can_be_replaced(_: Driver) {
    let (client, server) = pair().await;
    let server = Rc::new(server);
    let (guard, dropped) = gone();
    let owned = server.clone();
    server.set_callback(move |_| {
        let _held = (&guard, &owned);
        Next::Continue
    });
    client.write(b"swallowed");
    client.flushed().await.expect("sent");
    busy_turns().await;
    let owned = server.clone();
    server.set_callback(move |incoming| {
        if let Incoming::Data(view) = incoming {
            owned.send(view);
        }
        Next::Continue
    });
    dropped.await.expect("sent by the guard");
    exchange(&client, b"served by the second").await;
}

/// The first callback reads one message and installs the second, as a change of protocol does.
async fn a_callback_can_replace_itself(_: Driver) {
    let (client, server) = pair().await;
    let server = Rc::new(server);
    let (guard, dropped) = gone();
    let owned = server.clone();
    server.set_callback(move |incoming| {
        let _held = &guard;
        if let Incoming::Data(_) = incoming {
            let stream = owned.clone();
            owned.set_callback(move |incoming| {
                if let Incoming::Data(view) = incoming {
                    stream.send(view);
                }
                Next::Continue
            });
            owned.write(b"changed");
        }
        Next::Continue
    });
    client.write(b"change");
    assert_eq!(read(&client, 7).await, b"changed");
    dropped.await.expect("sent by the guard");
    exchange(&client, b"served by the second").await;
    drop(server);
}

thread_local! {
    /// The state that a destructor sees. It cannot hold a stream, because owners of bytes and wakers are `Send`.
    static WITHIN_REACH: RefCell<Option<Rc<Stream>>> = const { RefCell::new(None) };
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

/// Uses its core in its destructor, and may panic there.
struct Reentrant {
    bytes: &'static [u8],
    panics: bool,
}

impl AsRef<[u8]> for Reentrant {
    fn as_ref(&self) -> &[u8] {
        self.bytes
    }
}

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        let Some(stream) = WITHIN_REACH.with_borrow(Option::clone) else { return };
        let _needs_the_driver = now_exact();
        stream.write(b"!");
        DROPPED.set(DROPPED.get() + 1);
        assert!(!self.panics, "on purpose");
    }
}

async fn an_owner_of_sent_bytes_may_do_anything_when_it_is_dropped(_: Driver) {
    let (client, server) = pair().await;
    let (watcher, reached) = pair().await;
    WITHIN_REACH.set(Some(Rc::new(reached)));
    let owned = |bytes, panics| Bytes::from_owner(Reentrant { bytes, panics });
    // These are sent; two of one batch panic.
    for panics in [false, true, true] {
        server.send(owned(b"sent ", panics));
    }
    assert_eq!(read(&client, 15).await, b"sent sent sent ");
    assert_eq!(read(&watcher, 3).await, b"!!!");
    // These are dropped unsent with their stream, refused by it, or empty.
    server.send(owned(b"lost", true));
    server.send(owned(b"lost", true));
    server.abort();
    server.send(owned(b"", false));
    server.send(owned(b"refused", false));
    assert!(server.recv().await.is_err());
    assert_eq!(read(&watcher, 4).await, b"!!!!");
    assert_eq!(DROPPED.get(), 7);
    WITHIN_REACH.take();
}

async fn a_waker_may_do_anything_when_it_is_dropped(_: Driver) {
    let (_client, server) = pair().await;
    let (watcher, reached) = pair().await;
    WITHIN_REACH.set(Some(Rc::new(reached)));
    let waker = || Waker::from(Arc::new(Reentrant { bytes: b"", panics: false }));
    for waits_for_bytes in [true, false] {
        let waker = waker();
        let mut cx = Context::from_waker(&waker);
        let pending = match waits_for_bytes {
            true => server.poll_recv(&mut cx).is_pending(),
            false => {
                while server.write(&[0; SEGMENT]) == Pressure::Low {}
                server.poll_drained(&mut cx).is_pending()
            }
        };
        assert!(pending);
    }
    drop(server);
    assert_eq!(read(&watcher, 2).await, b"!!");
    WITHIN_REACH.take();
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

async fn a_waker_that_panics_ends_only_its_stream(_: Driver) {
    let (good, other) = pair().await;
    drop(spawn(echo(other)));
    let (client, server) = pair().await;
    let waker = Waker::from(Arc::new(Panics));
    assert!(server.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    client.write(b"boom");
    client.flushed().await.expect("sent");
    busy_turns().await;
    let mut received = pin!(server.recv());
    // The bytes that had arrived are still there, and the failure comes after them.
    assert!(poll_once(received.as_mut()).await.is_ready());
    assert!(server.recv().await.is_err());
    exchange(&good, b"untouched").await;
}

/// A task that waits to send learns of the end even if the waker of the receiving task panics.
async fn a_waker_that_panics_keeps_no_other_waiter_from_the_end(_: Driver) {
    let (_client, server) = narrow_pair(StreamLimits::default()).await;
    let server = Rc::new(server);
    while server.write(&[0; SEGMENT]) == Pressure::Low {}
    let writer = server.clone();
    let writer = spawn(async move { writer.flushed().await });
    yield_now().await;
    let waker = Waker::from(Arc::new(Panics));
    assert!(server.poll_recv(&mut Context::from_waker(&waker)).is_pending());
    server.abort();
    assert!(writer.await.expect("no panic of its own").is_err());
}

/// The end is an event of a callback, not of the stream: a callback that replaces another one receives it too.
async fn a_callback_set_by_one_that_knows_of_the_end_is_told_too(_: Driver) {
    let (client, server) = pair().await;
    let told = Told::default();
    let (server, notes) = (Rc::new(server), told.clone());
    let owned = server.clone();
    server.set_callback(move |incoming| {
        if let Incoming::Eof = incoming {
            notes.note(&incoming);
            let (stream, notes) = (owned.clone(), notes.clone());
            owned.set_callback(move |incoming| {
                let _owned = &stream;
                notes.note(&incoming);
                Next::Close
            });
        }
        Next::Continue
    });
    drop(server);
    client.shutdown();
    assert!(read_to_end(&client).await.is_empty());
    assert_eq!(*told.0.borrow(), ["eof", "eof"]);
}

/// Each callback that receives the end sets another one, up to an absurd number.
fn set_at_the_end(stream: Rc<Stream>, told: Rc<Cell<usize>>) {
    let own = Rc::clone(&stream);
    stream.set_callback(move |incoming| {
        if let Incoming::Eof | Incoming::Failed(_) = incoming {
            told.set(told.get() + 1);
            if told.get() < 1_000 {
                set_at_the_end(Rc::clone(&own), Rc::clone(&told));
            }
        }
        Next::Continue
    });
}

async fn callbacks_that_replace_each_other_at_the_end_do_so_a_few_times(_: Driver) {
    let (client, server) = pair().await;
    let (server, told) = (Rc::new(server), Rc::new(Cell::new(0)));
    let (guard, closed) = gone();
    server.hold_until_closed(guard);
    set_at_the_end(server, Rc::clone(&told));
    client.shutdown();
    closed.await.expect("sent by the guard");
    assert!((2..100).contains(&told.get()), "{} were told", told.get());
}
