//! How calls end is told to their clients, counted once, and survived, whatever their handlers do then.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::task;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::yield_now;
use ringway_wire::native::Body;

use super::SimServer;
use super::left_over::{Peer, run};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::metrics::{MethodSnapshot, Side};
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

const MS: Duration = Duration::from_millis(1);

static METHODS: [Method; 12] = [
    Method::new("sim.Ends/Say", Kind::Unary),
    Method::new("sim.Ends/Long", Kind::Unary),
    Method::new("sim.Ends/Alone", Kind::Unary).concurrency(1),
    Method::new("sim.Ends/Gather", Kind::ClientStream).concurrency(1),
    Method::new("sim.Ends/Ask", Kind::Bidi),
    Method::new("sim.Ends/Deaf", Kind::Bidi),
    Method::new("sim.Ends/Shout", Kind::Bidi),
    Method::new("sim.Ends/Cling", Kind::Bidi),
    Method::new("sim.Ends/Insist", Kind::Bidi),
    Method::new("sim.Ends/Lend", Kind::Bidi),
    Method::new("sim.Ends/Own", Kind::Unary),
    Method::new("sim.Ends/Owns", Kind::ServerStream),
];

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "sim.Ends", methods: &METHODS, file_descriptor_set: None };

thread_local! {
    /// A handler reads no more.
    static DEAF: Cell<bool> = const { Cell::new(false) };
    /// Of a call that goes on.
    static LENT: Cell<Option<Sink<Bytes>>> = const { Cell::new(None) };
    /// Messages that are gone.
    static GONE: Cell<usize> = const { Cell::new(0) };
    /// What the destructors of handlers found.
    static FOUND: RefCell<Vec<(bool, Code)>> = const { RefCell::new(Vec::new()) };
}

struct Ends;

/// The memory of a message, whose end is told on another stream of the connection.
struct Owner(Vec<u8>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut lent = LENT.take().expect("a call lends it");
        lent.try_send(Bytes::from_static(b"gone")).expect("room");
        LENT.set(Some(lent));
        GONE.set(GONE.get() + 1);
        panic!("as destructors may");
    }
}

/// A message of so many bytes.
fn owned(len: &[u8]) -> Bytes {
    let len = str::from_utf8(len).ok().and_then(|len| len.parse().ok());
    Bytes::from_owner(Owner(vec![7; len.expect("a number")]))
}

impl Service for Ends {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&METHODS[0], raw, raw, async |_: Context, word: Bytes| Ok(word));
        methods.unary(&METHODS[1], raw, raw, async |_: Context, _: Bytes| {
            Ok(Bytes::from_static(&[7; 2_000]))
        });
        methods.unary(&METHODS[2], raw, raw, async |_: Context, _: Bytes| {
            pending::<Result<Bytes, Status>>().await
        });
        methods.client_stream(&METHODS[3], raw, raw, async |_: Context, _in: Streaming<Bytes>| {
            pending::<Result<Bytes, Status>>().await
        });
        methods.bidi(&METHODS[4], raw, raw, ask);
        methods.bidi(&METHODS[5], raw, raw, deaf);
        methods.bidi(&METHODS[6], raw, raw, shout);
        methods.bidi(&METHODS[7], raw, raw, cling);
        methods.bidi(&METHODS[8], raw, raw, insist);
        methods.bidi(&METHODS[9], raw, raw, async |_: Context, _in: Streaming<Bytes>, out| {
            LENT.set(Some(out));
            pending().await
        });
        methods.unary(&METHODS[10], raw, raw, async |_: Context, len: Bytes| Ok(owned(&len)));
        methods.server_stream(&METHODS[11], raw, raw, async |_: Context, len: Bytes, mut out| {
            Sink::send(&mut out, owned(&len)).await
        });
    }
}

/// Looks for what clients do not say at all in front of their messages.
async fn ask(_: Context, mut words: Streaming<Bytes>, mut out: Sink<Bytes>) -> Result<(), Status> {
    assert!(words.metadata().await?.is_empty());
    out.send(Bytes::from_static(b"and?")).await
}

/// Reads one message and no more.
async fn deaf(_: Context, mut words: Streaming<Bytes>, _out: Sink<Bytes>) -> Result<(), Status> {
    words.next().await?;
    yield_now().await;
    drop(words);
    DEAF.set(true);
    pending().await
}

async fn shout(_: Context, _in: Streaming<Bytes>, mut out: Sink<Bytes>) -> Result<(), Status> {
    out.send(Bytes::from_static(&[7; 2_000])).await
}

/// Says more at once than its client takes, not in the turn in which it began, and goes on as if nothing
/// were the matter.
async fn insist(_: Context, _in: Streaming<Bytes>, mut out: Sink<Bytes>) -> Result<(), Status> {
    yield_now().await;
    let told = out.send(Bytes::from_static(&[7; 2_000])).await;
    assert!(told.is_err_and(|status| status.is_resource_exhausted()));
    pending().await
}

/// Holds on to its call until it ends, and does then all that it could do before.
async fn cling(context: Context, words: Streaming<Bytes>, out: Sink<Bytes>) -> Result<(), Status> {
    let mut clings = Clings { context, words, out: Some(out) };
    match clings.words.next().await?.as_deref() {
        Some(b"fail") => Err(Status::not_found("as it was told")),
        Some(b"panic") => panic!("as it was told"),
        Some(b"long") => {
            let long = Bytes::from_static(&[7; 2_000]);
            clings.out.as_mut().expect("it is there").send(long).await
        }
        Some(b"cancel") => {
            clings.out.take().expect("it is there").cancel("as it was told");
            pending().await
        }
        _ => pending().await,
    }
}

struct Clings {
    context: Context,
    words: Streaming<Bytes>,
    out: Option<Sink<Bytes>>,
}

impl Drop for Clings {
    fn drop(&mut self) {
        let mut cx = task::Context::from_waker(task::Waker::noop());
        let _over = pin!(self.words.next()).poll(&mut cx);
        let _over = self.out.as_mut().map(|out| out.try_send(Bytes::from_static(b"still here")));
        let _good = self.context.set_trailer("still", "here");
        self.context.insert(7_u32);
        if let Some(out) = self.out.take() {
            out.cancel("no more of this");
        }
        let code = self.context.cancel_reason().map_or(Code::Ok, |reason| reason.code());
        FOUND.with_borrow_mut(|found| found.push((Context::current().is_some(), code)));
        assert!(code == Code::Ok || std::thread::panicking(), "as destructors may");
    }
}

async fn meet(settings: Settings) -> Peer {
    Peer::of(SimServer::new(settings, Ends)).await
}

fn counted(peer: &Peer, method: &str) -> MethodSnapshot {
    let snapshot = peer.server.shared.metrics.snapshot();
    snapshot.method(Side::Server, method).expect("it was called").clone()
}

#[test]
fn requests_that_never_come_whole_are_counted() {
    run(async || {
        let mut settings = Settings::default();
        settings.native.stall_timeout = 10 * MS;
        let mut peer = meet(settings).await;
        let torn = peer.open("sim.Ends/Say", b"and so on", false, &[]);
        assert_eq!(peer.told(torn).await, (Code::DeadlineExceeded, false));
        assert_eq!(peer.stats().expired, 1);
        let said = peer.open("sim.Ends/Say", b"whole", true, &[]);
        assert_eq!(peer.answer(said).await, Code::Ok);
        assert_eq!(peer.stats().expired, 1, "once");
        peer.leave().await;
    });
}

#[test]
fn a_reply_that_its_client_does_not_take_counts_as_what_the_client_was_told() {
    run(async || {
        let mut peer = meet(Settings::default()).await;
        let long = peer.open("sim.Ends/Long", b"", true, &[]);
        assert_eq!(peer.answer(long).await, Code::ResourceExhausted);
        let counted = counted(&peer, "sim.Ends/Long");
        let codes = [Code::ResourceExhausted, Code::Ok].map(|code| counted.with_code(code));
        assert_eq!((codes, counted.bytes_out), ([1, 0], 0));
        peer.leave().await;
    });
}

#[test]
fn a_message_that_its_client_does_not_take_is_not_counted_as_sent() {
    run(async || {
        let mut peer = meet(Settings::default()).await;
        let shouts = peer.open("sim.Ends/Shout", b"", true, &[]);
        assert_eq!(peer.answer(shouts).await, Code::ResourceExhausted);
        let counted = counted(&peer, "sim.Ends/Shout");
        assert_eq!((counted.messages_out, counted.bytes_out), (0, 0));
        peer.leave().await;
    });
}

#[test]
fn calls_that_never_ran_before_the_drain_was_over_are_said_not_to_have_been_executed() {
    run(async || {
        let mut peer = meet(Settings { drain_timeout: 50 * MS, ..Settings::default() }).await;
        let ran = ["sim.Ends/Alone", "sim.Ends/Gather"]
            .map(|name| peer.open(name, b"", name.ends_with("Alone"), &[]));
        peer.flush();
        peer.until("they run", || peer.stats().in_flight == 2).await;
        let mut ended_before_answer = vec![peer.open("sim.Ends/Say", b"and so on", false, &[])];
        ended_before_answer.push(peer.open("sim.Ends/Alone", b"", true, &[]));
        ended_before_answer.push(peer.open("sim.Ends/Gather", b"", false, &[]));
        peer.flush();
        peer.until("two wait", || peer.stats().in_flight == 4).await;
        peer.core().drain();
        for call in ran {
            assert_eq!(peer.told(call).await, (Code::Unavailable, false));
        }
        for call in ended_before_answer {
            assert_eq!(peer.told(call).await, (Code::Unavailable, true));
        }
        peer.until("the handlers are dropped", || peer.stats().in_flight == 0).await;
        let stats = peer.stats();
        assert_eq!((stats.cut_off, stats.refused, stats.cancelled), (2, 3, 0));
    });
}

#[test]
fn a_handler_that_looks_for_metadata_of_its_stream_is_told_at_once_that_there_is_none() {
    run(async || {
        let mut peer = meet(Settings::default()).await;
        // Nothing but the request: its client waits for an answer before it says anything.
        let name = "sim.Ends/Ask";
        let open = ringway_wire::native::Open { name, ..Default::default() };
        let asked = peer.machine.open(open).expect("room");
        assert_eq!(peer.answer(asked).await, Code::Ok);
        peer.leave().await;
    });
}

#[test]
fn what_a_handler_will_not_read_is_not_counted_as_unread() {
    run(async || {
        let (settings, began) = (Settings::default(), ringway_runtime::now());
        let mut peer = meet(settings.clone()).await;
        let call = peer.open("sim.Ends/Deaf", b"one", false, &[]);
        for _ in 0..20 {
            peer.machine.send(call, Body::Copy(&[7; 1_000]), false).expect("it is open");
        }
        peer.flush();
        peer.until("it reads no more", || DEAF.get()).await;
        // A ping would have it counted anew as well.
        assert!(ringway_runtime::now() - began < settings.native.ping_after);
        assert_eq!(counted(&peer, "sim.Ends/Deaf").messages_in, 21);
        assert_eq!(peer.stats().unread_bytes, 0);
        peer.machine.cancel(call, Code::Cancelled as u8, "");
        peer.flush();
        peer.leave().await;
    });
}

#[test]
fn a_call_that_a_long_message_has_ended_is_over_at_once_whatever_its_handler_does() {
    run(async || {
        let (settings, began) = (Settings::default(), ringway_runtime::now());
        let mut peer = meet(settings.clone()).await;
        let call = peer.open("sim.Ends/Insist", b"", false, &[]);
        assert_eq!(peer.answer(call).await, Code::ResourceExhausted);
        // A ping would have it told as well.
        assert!(ringway_runtime::now() - began < settings.native.ping_after);
        peer.leave().await;
    });
}

#[test]
fn messages_whose_memory_belongs_to_somebody_end_where_nothing_is_borrowed() {
    run(async || {
        let mut peer = meet(Settings::default()).await;
        let lends = peer.open("sim.Ends/Lend", b"", false, &[]);
        peer.flush();
        peer.until("it lends", || peer.stats().in_flight == 1).await;
        let too_long = Code::ResourceExhausted;
        let cases = [("100", Code::Ok), ("2000", too_long), ("10000", too_long)];
        for (gone, (name, (len, code))) in ["sim.Ends/Own", "sim.Ends/Owns"]
            .into_iter()
            .flat_map(|name| cases.map(|case| (name, case)))
            .enumerate()
        {
            let call = peer.open(name, len.as_bytes(), true, &[]);
            assert_eq!(peer.answer(call).await, code, "{name}, {len} bytes");
            assert_eq!(GONE.get(), gone + 1, "{name}, {len} bytes");
        }
        drop(LENT.take());
        peer.machine.cancel(lends, Code::Cancelled as u8, "");
        peer.flush();
        peer.leave().await;
    });
}

/// A call whose handler is told to end so, or is ended by its client, and what its destructor found.
#[track_caller]
fn check_clinging(word: &'static [u8], expected: Code) {
    run(async move || {
        let mut peer = meet(Settings::default()).await;
        let bystander = peer.open("sim.Ends/Deaf", b"", false, &[]);
        let call = peer.open("sim.Ends/Cling", word, false, &[]);
        peer.flush();
        if word == b"leave" {
            peer.until("they run", || peer.stats().in_flight == 2).await;
            peer.machine.cancel(call, Code::Cancelled as u8, "enough");
            peer.flush();
        } else {
            assert_eq!(peer.answer(call).await, expected);
        }
        peer.until("one waits", || peer.stats().in_flight == 1).await;
        FOUND.with_borrow(|found| {
            assert_eq!(found.len(), 1, "dropped once");
            assert!(found[0].0, "it is still the current call");
        });
        let counted = counted(&peer, "sim.Ends/Cling");
        assert_eq!((counted.with_code(expected), counted.ended()), (1, 1));
        let said = peer.open("sim.Ends/Say", b"well?", true, &[]);
        assert_eq!(peer.answer(said).await, Code::Ok);
        peer.machine.cancel(bystander, Code::Cancelled as u8, "");
        peer.flush();
        peer.leave().await;
    });
}

#[test]
fn destructors_of_handlers_may_use_what_their_call_had() {
    for (word, expected) in [
        (&b"panic"[..], Code::Cancelled), // by the destructor, before anything was answered
        (b"long", Code::ResourceExhausted),
        (b"cancel", Code::Cancelled),
        (b"leave", Code::Cancelled),
    ] {
        FOUND.with_borrow_mut(Vec::clear);
        check_clinging(word, expected);
    }
}

#[test]
fn destructors_of_handlers_may_use_what_their_connection_had() {
    FOUND.with_borrow_mut(Vec::clear);
    run(async || {
        let mut peer = meet(Settings::default()).await;
        for _ in 0..3 {
            peer.open("sim.Ends/Cling", b"stay", false, &[]);
        }
        peer.flush();
        peer.until("they run", || peer.stats().in_flight == 3).await;
        peer.leave_calls().await;
        assert_eq!(FOUND.with_borrow(Vec::clone), [(true, Code::Cancelled); 3]);
    });
}
