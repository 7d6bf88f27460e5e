//! Nothing of a call is left over, however it ends before its handler has taken hold of it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, JoinHandle, sleep, timeout, yield_now};
use ringway_wire::native::{
    Body, Client, ClientEvent, Config, MetaReader, Open, Outgoing, Server, StreamId, Tag,
};

use super::{SimServer, accept, listen, native};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::metrics::Side;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;
use crate::server::interceptor::{MakeIntercept, Next, make};
use crate::server::settings::Settings;
use crate::server::stats::ServerStats;
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

/// Virtual time in which whatever is waited for has happened.
const LIMIT: Duration = Duration::from_secs(60);

static METHODS: [Method; 8] = [
    Method::new("left.Over/Say", Kind::Unary),
    Method::new("left.Over/Collect", Kind::ClientStream),
    Method::new("left.Over/Alone", Kind::ClientStream).concurrency(1),
    Method::new("left.Over/Wait", Kind::Unary).concurrency(1),
    Method::new("left.Over/Leave", Kind::Bidi).concurrency(1),
    Method::new("left.Over/Stay", Kind::Bidi),
    Method::new("left.Over/Shout", Kind::Bidi),
    Method::new("left.Over/Bitter", Kind::ClientStream),
];

thread_local! {
    /// What handlers that were dropped had been told.
    static TOLD: RefCell<Vec<Code>> = const { RefCell::new(Vec::new()) };
}

/// Looks at what its handler is told, when that is dropped.
struct Listens(Context);

impl Drop for Listens {
    fn drop(&mut self) {
        let code = self.0.cancel_reason().map_or(Code::Ok, |reason| reason.code());
        TOLD.with_borrow_mut(|told| told.push(code));
    }
}

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "left.Over", methods: &METHODS, file_descriptor_set: None };

pub(super) struct Plain;

impl Service for Plain {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&METHODS[0], raw, raw, async |_: Context, word: Bytes| Ok(word));
        methods.client_stream(&METHODS[1], raw, raw, collect);
        methods.client_stream(&METHODS[2], raw, raw, collect);
        methods.unary(&METHODS[3], raw, raw, async |_: Context, _: Bytes| {
            std::future::pending::<Result<Bytes, Status>>().await
        });
        methods.bidi(&METHODS[4], raw, raw, leave);
        methods.bidi(&METHODS[5], raw, raw, stay);
        methods.bidi(&METHODS[6], raw, raw, shout);
        methods.client_stream(&METHODS[7], raw, raw, async |_: Context, _in: Streaming<Bytes>| {
            let _bitter = Bitter;
            std::future::pending::<Result<Bytes, Status>>().await
        });
    }
}

/// Its end is a panic.
struct Bitter;

impl Drop for Bitter {
    fn drop(&mut self) {
        panic!("as destructors may");
    }
}

async fn collect(_: Context, mut parts: Streaming<Bytes>) -> Result<Bytes, Status> {
    let mut all = Vec::new();
    while let Some(part) = parts.next().await? {
        all.extend_from_slice(&part);
    }
    Ok(all.into())
}

/// Ends its call before it waits.
async fn leave(context: Context, _: Streaming<Bytes>, back: Sink<Bytes>) -> Result<(), Status> {
    let _listens = Listens(context);
    back.cancel("enough of this");
    std::future::pending().await
}

async fn stay(context: Context, _in: Streaming<Bytes>, _out: Sink<Bytes>) -> Result<(), Status> {
    let _listens = Listens(context);
    std::future::pending().await
}

/// Says more at once than its client takes, and takes the failure for no reason to fail.
async fn shout(_: Context, _in: Streaming<Bytes>, mut out: Sink<Bytes>) -> Result<(), Status> {
    let told = out.send(Bytes::from_static(&[7; 2_000])).await.map_err(|status| status.code());
    TOLD.with_borrow_mut(|all| all.push(told.err().unwrap_or(Code::Ok)));
    Ok(())
}

/// A client by hand, and the server that it has.
pub(super) struct Peer {
    pub(super) machine: Client,
    stream: Stream,
    /// With whether the call is said not to have been executed.
    answers: Vec<(StreamId, (Code, bool))>,
    pub(super) server: Rc<SimServer>,
    pub(super) serving: JoinHandle<()>,
}

impl Peer {
    pub(super) async fn meet(interceptors: Vec<MakeIntercept>) -> Self {
        Self::of(SimServer::intercepted(Settings::default(), Plain, interceptors)).await
    }

    pub(super) async fn of(server: Rc<SimServer>) -> Self {
        let (listener, address) = listen();
        let serving = server.serve(address);
        let stream = accept(&listener).await;
        let mut config = Config::default();
        config.settings.max_message = 1_000;
        let machine = Client::new(config, Duration::ZERO);
        let mut peer = Self { machine, stream, answers: Vec::new(), server, serving };
        peer.flush();
        peer
    }

    /// To be [flushed](Self::flush).
    pub(super) fn open(&mut self, name: &str, message: &[u8], end: bool, meta: &[u8]) -> StreamId {
        let message = Some(Body::Copy(message));
        self.machine.open(Open { name, message, end, meta, ..Open::default() }).expect("room")
    }

    /// What was written since the last time goes together.
    pub(super) fn flush(&mut self) {
        let mut out = Vec::new();
        self.machine.transmit(usize::MAX, &mut |outgoing| match outgoing {
            Outgoing::Copy(bytes) => out.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => out.extend_from_slice(&bytes),
        });
        let _pressure = self.stream.write(&out);
    }

    /// Sends what is no frame.
    pub(super) fn break_protocol(&self) {
        let _pressure = self.stream.write(&[0xff; 64]);
    }

    pub(super) async fn answer(&mut self, stream: StreamId) -> Code {
        self.told(stream).await.0
    }

    /// The answer, and whether it says that the call was not executed.
    pub(super) async fn told(&mut self, stream: StreamId) -> (Code, bool) {
        self.flush();
        loop {
            if let Some(at) = self.answers.iter().position(|(of, _)| *of == stream) {
                return self.answers.swap_remove(at).1;
            }
            let view = timeout(LIMIT, self.stream.recv()).await.expect("in time");
            let view = view.expect("a connection").expect("the server stays");
            let mut input = &view[..];
            while let Some(event) = self.machine.receive(&mut input, Duration::ZERO).expect("good")
            {
                if let ClientEvent::Response { stream, status, meta, .. } = event {
                    let is_refused = said(&meta).any(|tag| tag == Tag::Refused);
                    self.answers.push((stream, (Code::from_wire(status), is_refused)));
                }
            }
        }
    }

    /// Whatever was sent before has been served when this returns.
    async fn say(&mut self) {
        let stream = self.open("left.Over/Say", b"all of it has come", true, &[]);
        assert_eq!(self.answer(stream).await, Code::Ok);
    }

    pub(super) fn stats(&self) -> ServerStats {
        self.server.shared.stats()
    }

    pub(super) fn core(&self) -> Rc<ServerCore> {
        self.server.core().expect("it serves")
    }

    fn connection(&self) -> Weak<ServerConnection<Server>> {
        Rc::downgrade(&native(self.core().connections().all().remove(0)))
    }

    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let so = timeout(LIMIT, async {
            while !is_so() {
                sleep(Duration::from_millis(1)).await;
            }
        });
        so.await.unwrap_or_else(|_| panic!("not in time: {what}"));
    }

    /// All calls are over; the connection ends, and nothing of it is left.
    pub(super) async fn leave(self) {
        let connection = self.connection();
        let has_streams = || connection.upgrade().is_some_and(|it| !it.known_streams().is_empty());
        self.until("no stream is left", || !has_streams()).await;
        self.until("no call is left", || self.stats().in_flight == 0).await;
        self.leave_calls().await;
    }

    /// The connection ends with all its calls.
    pub(super) async fn leave_calls(self) {
        let connection = self.connection();
        drop(self.stream);
        timeout(LIMIT, self.serving).await.expect("it ends").expect("no panic");
        assert!(connection.upgrade().is_none(), "nobody holds the connection any more");
        let stats = self.server.shared.stats();
        assert_eq!((stats.in_flight, stats.unread_bytes), (0, 0));
    }
}

fn said(meta: &[u8]) -> impl Iterator<Item = Tag> {
    MetaReader::new(meta).map(|piece| piece.expect("well-formed").0)
}

pub(super) fn run(test: impl AsyncFnOnce() + 'static) {
    Builder::simulate(SimConfig::new(1), test()).expect("it is never stuck");
}

/// Many streams of requests that an interceptor does not let through.
#[track_caller]
fn check_kept_off(interceptor: MakeIntercept, expected: Code) {
    run(async move || {
        let mut peer = Peer::meet(vec![interceptor]).await;
        for _ in 0..100 {
            let stream = peer.open("left.Over/Collect", &[7; 1_000], false, &[]);
            assert_eq!(peer.answer(stream).await, expected);
        }
        peer.leave().await;
    });
}

#[test]
fn a_stream_that_an_interceptor_answers_is_gone() {
    let no = async |_, next: Next| {
        drop(next);
        Err(Status::unauthenticated("no"))
    };
    check_kept_off(make(no), Code::Unauthenticated);
    let later = async |_, _next| {
        yield_now().await;
        Err(Status::unauthenticated("no"))
    };
    check_kept_off(make(later), Code::Unauthenticated);
}

#[test]
fn a_stream_whose_interceptor_panics_is_gone() {
    check_kept_off(make(async |_, _next| panic!("as interceptors may")), Code::Internal);
}

#[test]
fn a_stream_whose_interceptor_waits_is_gone_when_its_client_cancels() {
    run(async || {
        let mut peer = Peer::meet(vec![make(async |context: Context, next: Next| {
            match context.method().kind() {
                Kind::Unary => next.run(context).await,
                _ => std::future::pending().await,
            }
        })])
        .await;
        for _ in 0..100 {
            let stream = peer.open("left.Over/Collect", b"one", false, &[]);
            peer.say().await;
            peer.machine.cancel(stream, Code::Cancelled as u8, "");
            peer.say().await;
        }
        peer.leave().await;
    });
}

#[test]
fn a_stream_that_is_cancelled_with_what_has_opened_it_is_gone() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        peer.say().await;
        for name in ["left.Over/Collect", "left.Over/Alone"] {
            let stream = peer.open(name, b"one", false, &[]);
            peer.machine.send(stream, Body::Copy(b"two"), false).expect("it is open");
            peer.machine.cancel(stream, Code::Cancelled as u8, "");
            peer.say().await;
        }
        peer.leave().await;
    });
}

#[test]
fn a_stream_that_may_not_run_when_its_turn_comes_is_gone() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        let first = peer.open("left.Over/Alone", b"one", false, &[]);
        peer.say().await;
        let strange = peer.open("left.Over/Alone", b"one", false, &[0x70, 1, 0]);
        // The queue looks at the time in the header alone.
        let mut meta = Vec::new();
        ringway_wire::native::MetaWriter::new(&mut meta).timeout_us(1);
        let late = peer.open("left.Over/Alone", b"one", true, &meta);
        peer.say().await;
        sleep(Duration::from_millis(1)).await;
        peer.machine.finish(first);
        assert_eq!(peer.answer(first).await, Code::Ok);
        assert_eq!(peer.answer(strange).await, Code::Unimplemented);
        assert_eq!(peer.answer(late).await, Code::DeadlineExceeded);
        peer.leave().await;
    });
}

#[test]
fn a_handler_that_ends_its_call_before_it_waits_is_told_and_dropped() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        for round in 1..=3 {
            let stream = peer.open("left.Over/Leave", b"one", false, &[]);
            assert_eq!(peer.answer(stream).await, Code::Cancelled);
            assert_eq!(TOLD.with_borrow(Vec::clone), vec![Code::Cancelled; round]);
        }
        let snapshot = peer.server.shared.metrics.snapshot();
        let counted = snapshot.method(Side::Server, "left.Over/Leave").expect("it was called");
        assert_eq!((counted.with_code(Code::Cancelled), counted.in_flight()), (3, 0));
        peer.leave().await;
    });
}

#[test]
fn a_handler_whose_client_breaks_a_limit_is_told_so() {
    run(async || {
        let mut settings = Settings::default();
        settings.native.settings.max_message = 1_000;
        let mut peer = Peer::of(SimServer::new(settings, Plain)).await;
        let stream = peer.open("left.Over/Stay", b"one", false, &[]);
        peer.flush();
        peer.until("it runs", || peer.stats().in_flight == 1).await;
        let long = [7; 2_000];
        peer.machine.send(stream, Body::Copy(&long), false).expect("it does not know the limit");
        assert_eq!(peer.answer(stream).await, Code::ResourceExhausted);
        assert_eq!(TOLD.with_borrow(Vec::clone), [Code::ResourceExhausted]);
        let snapshot = peer.server.shared.metrics.snapshot();
        let counted = snapshot.method(Side::Server, "left.Over/Stay").expect("it was called");
        assert_eq!(counted.with_code(Code::ResourceExhausted), 1);
        peer.leave().await;
    });
}

#[test]
fn a_handler_that_breaks_its_client_s_limit_is_told_so() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        let stream = peer.open("left.Over/Shout", b"one", true, &[]);
        assert_eq!(peer.answer(stream).await, Code::ResourceExhausted);
        assert_eq!(TOLD.with_borrow(Vec::clone), [Code::ResourceExhausted]);
        let snapshot = peer.server.shared.metrics.snapshot();
        let counted = snapshot.method(Side::Server, "left.Over/Shout").expect("it was called");
        assert_eq!(counted.with_code(Code::ResourceExhausted), 1);
        peer.leave().await;
    });
}

#[test]
fn requests_that_wait_are_counted_until_their_clients_cancel() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        peer.say().await;
        let running = peer.open("left.Over/Wait", b"", true, &[]);
        let queued = [(); 4].map(|()| peer.open("left.Over/Wait", &[7; 100_000], true, &[]));
        peer.flush();
        // Their method is named by the metadata.
        let is_all = |unread| (400_000..401_000).contains(&unread);
        let counted = || peer.stats().in_flight == 5 && is_all(peer.stats().unread_bytes);
        peer.until("they are counted", counted).await;
        for stream in queued {
            peer.machine.cancel(stream, Code::Cancelled as u8, "");
        }
        peer.say().await;
        let stats = peer.stats();
        assert_eq!((stats.in_flight, stats.unread_bytes, stats.cancelled), (1, 0, 0));
        peer.machine.cancel(running, Code::Cancelled as u8, "");
        peer.say().await;
        assert_eq!((peer.stats().cancelled, peer.stats().refused), (1, 0));
        peer.leave().await;
    });
}

#[test]
fn streams_that_wait_are_counted_though_their_clients_have_said_all() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        let running = peer.open("left.Over/Alone", b"one", false, &[]);
        peer.say().await;
        for size in [1_000, 100_000] {
            let queued =
                [(); 4].map(|()| peer.open("left.Over/Alone", &[7; 100_000][..size], true, &[]));
            let is_all = |unread| (4 * size as u64..4 * size as u64 + 1_000).contains(&unread);
            peer.flush();
            let counted = || peer.stats().in_flight == 5 && is_all(peer.stats().unread_bytes);
            peer.until("they are counted", counted).await;
            for stream in queued {
                peer.machine.cancel(stream, Code::Cancelled as u8, "");
            }
            peer.say().await;
            assert_eq!((peer.stats().in_flight, peer.stats().unread_bytes), (1, 0));
        }
        peer.machine.finish(running);
        assert_eq!(peer.answer(running).await, Code::Ok);
        peer.leave().await;
    });
}

#[test]
fn requests_that_clients_have_cancelled_take_no_room_of_others() {
    run(async || {
        let settings = Settings { queue_room: 2, ..Settings::default() };
        let mut peer = Peer::of(SimServer::new(settings, Plain)).await;
        peer.open("left.Over/Wait", b"", true, &[]);
        let first = peer.open("left.Over/Wait", b"first", true, &[]);
        peer.say().await;
        for _ in 0..500 {
            let stream = peer.open("left.Over/Wait", b"", true, &[]);
            peer.machine.cancel(stream, Code::Cancelled as u8, "");
        }
        let second = peer.open("left.Over/Wait", b"second", true, &[]);
        peer.say().await;
        assert_eq!((peer.stats().in_flight, peer.stats().shed), (3, 0));
        let third = peer.open("left.Over/Wait", b"third", true, &[]);
        assert_eq!(peer.told(first).await, (Code::ResourceExhausted, true));
        assert_eq!((peer.stats().in_flight, peer.stats().shed), (3, 1));
        for stream in [second, third] {
            peer.machine.cancel(stream, Code::Cancelled as u8, "");
        }
        peer.say().await;
        assert_eq!((peer.stats().in_flight, peer.stats().shed), (1, 1));
        peer.leave_calls().await;
    });
}

#[test]
fn requests_that_wait_stay_within_the_bound_of_unread_bytes() {
    const MAX: usize = 4 << 20;
    /// What one turn may bring before the core looks at what it keeps.
    const AT_ONCE: u64 = 1 << 20;
    run(async || {
        let settings = Settings { unread_bytes_max: MAX, queue_room: 1_000, ..Settings::default() };
        let mut peer = Peer::of(SimServer::new(settings, Plain)).await;
        peer.say().await;
        for _ in 0..50 {
            for _ in 0..10 {
                peer.open("left.Over/Wait", &[7; 60_000], true, &[]);
            }
            peer.say().await;
            let unread = peer.stats().unread_bytes;
            assert!(unread <= MAX as u64 + AT_ONCE, "{unread} bytes are kept");
        }
        let came = || peer.stats().in_flight as u64 + peer.stats().refused == 500;
        peer.until("they have come", came).await;
        let stats = peer.stats();
        assert_eq!(stats.unread_bytes / 60_000, stats.in_flight as u64 - 1);
        assert!(stats.exhausted > 0, "{stats:?}");
        peer.leave_calls().await;
    });
}

#[test]
fn requests_that_wait_are_among_the_calls_in_flight() {
    run(async || {
        let settings = Settings { in_flight_max: 50, queue_room: 1_000, ..Settings::default() };
        let mut peer = Peer::of(SimServer::new(settings, Plain)).await;
        peer.say().await;
        for _ in 0..500 {
            peer.open("left.Over/Wait", b"one", true, &[]);
        }
        peer.flush();
        peer.until("they have come", || peer.stats().refused >= 450).await;
        assert_eq!((peer.stats().in_flight, peer.stats().refused), (50, 450));
        peer.leave_calls().await;
    });
}

#[test]
fn a_connection_is_gone_whose_client_breaks_the_protocol_and_leaves_without_reading() {
    run(async || {
        let mut settings = Settings::default();
        settings.native.settings.max_streams = 2_000;
        let mut peer = Peer::of(SimServer::new(settings, Plain)).await;
        peer.say().await;
        // More replies than both ends of the socket and one more share of it take in.
        for _ in 0..1_500 {
            peer.open("left.Over/Say", &[7; 1_000], true, &[]);
        }
        peer.flush();
        peer.break_protocol();
        let connection = peer.connection().upgrade().expect("it serves");
        let is_much_left = || connection.machine().output_len() > connection.send_mark();
        let has_failed = || connection.machine().receive(&mut &[][..], Duration::ZERO).is_err();
        peer.until("the server has had enough", || is_much_left() && has_failed()).await;
        drop(connection);
        let connection = peer.connection();
        peer.stream.abort();
        timeout(LIMIT, peer.serving).await.expect("it ends").expect("no panic");
        assert!(connection.upgrade().is_none(), "nobody holds the connection any more");
    });
}

#[test]
fn a_client_that_has_said_all_gets_the_replies_that_are_there() {
    run(async || {
        let mut peer = Peer::meet(vec![]).await;
        peer.say().await;
        for _ in 0..400 {
            peer.open("left.Over/Say", &[7; 1_000], true, &[]);
        }
        let last = peer.open("left.Over/Say", b"that is all", true, &[]);
        peer.flush();
        peer.stream.shutdown();
        assert_eq!(peer.answer(last).await, Code::Ok);
        timeout(LIMIT, peer.serving).await.expect("it ends").expect("no panic");
    });
}
