//! Replies that wait for the windows of an HTTP/2 client: its next calls wait too, and what that takes is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{
    Client, Codec, Compression, Context, Kind, Method, Methods, Server, ServerHandle, Service,
    ServiceDescriptor, Status, Streaming,
};
use ringway_runtime::{block_on, spawn, timeout};
use ringway_wire::grpc::{self, compress, prefix};
use ringway_wire::http2::{ErrorCode, StreamHandle};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::grpc_caller::{Came, GrpcCaller, framed};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

static METHODS: [Method; 2] =
    [Method::new("big.Big/One", Kind::Unary), Method::new("big.Big/Sum", Kind::ClientStream)];

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "big.Big", methods: &METHODS, file_descriptor_set: None };

const RAW: Codec<Bytes> = Codec::raw();
const MIB: usize = 1 << 20;
/// What asks for a reply of that length, twice that of the first window of a stream: even those whose first half has
/// left are so many that no more begin.
const ASKS: &[u8] = b"2097152";
const LEN: usize = 2 * MIB;
/// How many of the replies may wait.
const BEGIN: usize = 16;
const CALLS: usize = 60;

/// Replies with as many bytes as the request says in decimal, or with the request itself.
#[derive(Clone, Default)]
struct Big {
    /// Handlers that have begun.
    begun: Arc<AtomicUsize>,
}

impl Service for Big {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let one = Arc::clone(&self.begun);
        methods.unary(&METHODS[0], RAW, RAW, move |_: Context, request: Bytes| {
            one.fetch_add(1, Ordering::SeqCst);
            async move { Ok(reply_to(request)) }
        });
        let sum = Arc::clone(&self.begun);
        methods.client_stream(&METHODS[1], RAW, RAW, move |_: Context, all: Streaming<Bytes>| {
            sum.fetch_add(1, Ordering::SeqCst);
            first_of(all)
        });
    }
}

async fn first_of(mut all: Streaming<Bytes>) -> Result<Bytes, Status> {
    let first = all.next().await?.unwrap_or_default();
    Ok(reply_to(first))
}

fn reply_to(request: Bytes) -> Bytes {
    let text = std::str::from_utf8(&request).ok();
    match text.and_then(|text| text.parse().ok()) {
        Some(len) => vec![0; len].into(),
        None => request,
    }
}

/// A server, and a client that takes no more than the first window of each reply.
struct Waits {
    big: Big,
    handle: ServerHandle,
    caller: GrpcCaller,
    method: &'static str,
    streams: Vec<StreamHandle>,
}

impl Waits {
    fn on(method: &'static str, set: impl FnOnce(Server) -> Server) -> Self {
        let big = Big::default();
        let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
        let handle = set(server.service(big.clone())).start().expect("the server starts");
        let mut caller = GrpcCaller::connect(socket_addr(&handle));
        caller.reads = false;
        Self { big, handle, caller, method, streams: Vec::new() }
    }

    /// Makes many calls in one write, and waits until each has begun or waits.
    fn call_with(&mut self, fields: &[(&str, &str)], content: &[u8]) {
        self.caller.collects = true;
        for _ in 0..CALLS {
            self.streams.push(self.caller.open_with(self.method, fields, content, true));
        }
        self.caller.collects = false;
        self.caller.flush();
    }

    fn call(&mut self) {
        self.call_with(&[], &framed(ASKS));
        self.others_wait();
    }

    fn others_wait(&self) {
        let have_begun = || self.begun() >= BEGIN && self.begun() + self.waiting() == CALLS;
        eventually("some have begun, and the others wait", have_begun);
        assert!(self.begun() < 2 * BEGIN, "{} have begun", self.begun());
    }

    fn end(self) {
        drop(self.caller);
        end(self.handle);
    }

    fn begun(&self) -> usize {
        self.big.begun.load(Ordering::SeqCst)
    }

    fn waiting(&self) -> usize {
        self.handle.stats().in_flight
    }

    /// Lets the server send all of the replies.
    fn open_windows(&mut self) {
        self.caller.reads = true;
        for stream in &self.streams {
            let came = self.caller.seen(*stream).content.len();
            self.caller.machine.taken(*stream, came);
        }
        self.caller.flush();
    }

    fn all_are_answered(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            let came = self.caller.answer(stream);
            assert_eq!((came.status(), came.content.len()), ((0, ""), LEN + 5));
        }
    }

    /// Reads until all calls but those whose handlers have begun are `over`.
    fn until_over(&mut self, what: &str, over: impl Fn(&Came) -> bool) {
        let count = |came: &BTreeMap<u32, Came>| came.values().filter(|came| over(came)).count();
        while self.begun() + count(&self.caller.came) < CALLS {
            assert!(self.caller.read(), "the connection has ended: {what}");
        }
        assert!(self.begun() < 2 * BEGIN, "{} have begun", self.begun());
    }
}

/// Runs a test with calls that begin at once, and with such that begin when all their messages may have come.
fn of_both(test: impl Fn(&'static str)) {
    METHODS.iter().for_each(|method| test(method.name()));
}

#[test]
fn a_client_that_takes_nothing_has_a_bounded_share_of_memory() {
    alone(|| of_both(bounded));
}

fn bounded(method: &'static str) {
    let short = compress(grpc::Compression::Zstd, &vec![0; 4 * MIB]).expect("it is shorter");
    let content = [&prefix(short.len() as u32, true)[..], &short].concat();
    let on = Compression::of_all_services();
    let mut waits = Waits::on(method, |server| server.compression(on));
    let kept = || {
        let stats = ALLOCATOR.stats();
        stats.bytes_allocated - stats.bytes_deallocated
    };
    let before = kept();
    waits.call_with(&[("grpc-encoding", "zstd")], &content);
    let over = |waits: &Waits| waits.begun() + waits.handle.stats().malformed as usize;
    eventually("each is begun, refused, or waits", || over(&waits) + waits.waiting() == CALLS);
    let kept = kept() - before;
    println!("{method}: {} have begun, {} wait, {kept} bytes", waits.begun(), waits.waiting());
    assert!(kept < 120 * MIB, "{method}: {kept} bytes");
    waits.end();
}

#[test]
fn calls_go_on_when_their_client_opens_windows() {
    of_both(|method| {
        let mut waits = Waits::on(method, |server| server);
        waits.call();
        // What waits is not in the way of a reply to a call that does not begin.
        let late = waits.caller.open_with(method, &[("grpc-timeout", "1n")], &framed(ASKS), true);
        assert_eq!(waits.caller.answer(late).status().0, 4);
        assert!(waits.begun() < 2 * BEGIN, "{} have begun", waits.begun());
        waits.open_windows();
        waits.all_are_answered();
        assert_eq!((waits.begun(), waits.waiting()), (CALLS, 0));
        waits.end();
    });
}

#[test]
fn deadlines_pass_while_calls_wait() {
    of_both(|method| {
        let mut waits = Waits::on(method, |server| server);
        waits.call_with(&[("grpc-timeout", "500m")], &framed(ASKS));
        let expired = |waits: &Waits| waits.handle.stats().expired as usize;
        eventually("their time is over", || waits.begun() + expired(&waits) == CALLS);
        assert!(expired(&waits) > CALLS - 2 * BEGIN, "{} have begun", waits.begun());
        waits.until_over("late", |came| came.has_ended && came.status().0 == 4);
        assert_eq!(waits.waiting(), 0);
        waits.end();
    });
}

#[test]
fn cancelled_calls_wait_no_longer() {
    of_both(|method| {
        let mut waits = Waits::on(method, |server| server);
        waits.call();
        for stream in waits.streams.split_off(CALLS - 10) {
            waits.caller.reset(stream);
        }
        eventually("they are gone", || waits.begun() + waits.waiting() == CALLS - 10);
        waits.open_windows();
        waits.all_are_answered();
        assert_eq!((waits.begun(), waits.waiting()), (CALLS - 10, 0));
        waits.end();
    });
}

#[test]
fn calls_that_wait_end_with_their_connection() {
    of_both(|method| {
        let mut waits = Waits::on(method, |server| server);
        waits.call();
        let handle = waits.handle;
        drop(waits.caller);
        eventually("all are gone", || handle.stats().in_flight == 0);
        assert!(waits.big.begun.load(Ordering::SeqCst) < 2 * BEGIN);
        end(handle);
    });
}

#[test]
fn a_drain_lets_calls_go_on_that_wait() {
    of_both(|method| {
        let mut waits = Waits::on(method, |server| server);
        waits.call();
        waits.handle.shutdown();
        waits.caller.until_left();
        waits.open_windows();
        waits.all_are_answered();
        drop(waits.caller);
        wait(waits.handle);
    });
}

#[test]
fn the_end_of_a_drain_refuses_calls_that_wait() {
    of_both(|method| {
        let mut waits =
            Waits::on(method, |server| server.drain_timeout(Duration::from_millis(300)));
        waits.call();
        waits.handle.shutdown();
        waits.until_over("refused", |came| came.reset == Some(ErrorCode::REFUSED_STREAM));
        drop(waits.caller);
        wait(waits.handle);
    });
}

#[test]
fn requests_that_wait_are_bounded() {
    let mut waits = Waits::on("big.Big/One", |server| server);
    waits.call();
    let message = framed(&vec![b'x'; MIB]);
    waits.caller.read(); // the server's limit of streams
    let more: Vec<_> =
        (0..70).map(|_| waits.caller.open_with("big.Big/One", &[], &message, true)).collect();
    let is_refused = |came: &Came| came.has_ended && came.status().0 == 8;
    waits.caller.until("one is refused", |came| came.values().any(is_refused));
    let refused = waits.caller.came.values().find(|came| is_refused(came)).expect("one");
    assert!(refused.status().1.contains("read the replies"), "{:?}", refused.status());
    let share = waits.handle.stats().unread_bytes as usize;
    assert!((60 * MIB..80 * MIB).contains(&share), "{share} bytes of requests wait");
    waits.open_windows();
    waits.all_are_answered();
    let (mut answered, mut refused) = (0, 0);
    for stream in more {
        match waits.caller.answer(stream).status().0 {
            0 => answered += 1,
            8 => refused += 1,
            other => panic!("status {other}"),
        }
    }
    assert!(answered >= 60 && refused > 0, "{answered} were answered, {refused} refused");
    assert_eq!(waits.handle.stats().shed, refused);
    waits.end();
}

/// A client that takes its replies does not notice.
#[test]
fn many_long_replies_at_once_all_arrive() {
    const CALLS: usize = 100;
    let big = Big::default();
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let handle = server.service(big.clone()).start().expect("the server starts");
    let url = format!("grpc://{}", socket_addr(&handle));
    let calls = async move {
        let client = Client::connect(&*url)?;
        let call = || client.unary(&METHODS[0], RAW, RAW, Bytes::from_static(b"1048576"));
        let calls: Vec<_> = (0..CALLS).map(|_| spawn(call())).collect();
        for call in calls {
            assert_eq!(call.await.expect("no panic")?.len(), MIB);
        }
        Ok::<(), Status>(())
    };
    block_on(timeout(LIMIT, calls)).expect("a core").expect("no hang").expect("success");
    assert_eq!(big.begun.load(Ordering::SeqCst), CALLS);
    end(handle);
}
