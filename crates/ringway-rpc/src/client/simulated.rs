//! Whole clients against servers whose words were changed on the way: every call ends by its deadline,
//! nobody panics, nothing is left over, and the calls to another server over the same core notice nothing.
//!
//! `RINGWAY_MUTATIONS=1000000 cargo test --release -p ringway-rpc --lib client::simulated` makes more
//! calls, from `RINGWAY_SEED` on.

mod grpc;
mod json;
mod meddling;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Builder, JoinHandle, now, sleep, spawn, timeout};
use ringway_wire::native::{Body, GoAwayCode, Reply, Server, ServerEvent, StreamId};

use super::{CallOptions, Client, local_clients};
use crate::call::codec::Codec;
use crate::call::method::{Kind, Method};
use crate::metrics::Side;
use crate::policy::balance::Policy;
use crate::server::simulated::mutation::random::Random;
use crate::server::simulated::mutation::sessions::{
    NOISE, SESSIONS, answer, append, frames, mutate, split,
};
use crate::server::simulated::mutation::{Bystander, Moody, panics};
use crate::server::simulated::{SimServer, accept, listen, number};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

const MS: Duration = Duration::from_millis(1);
/// Virtual time in which whatever is waited for has happened.
const LIMIT: Duration = Duration::from_secs(900);
/// Calls with the same client, some of them at once.
const CALLS_EACH: u64 = 100;
const AT_ONCE: usize = 10;

static METHODS: [Method; 5] = [
    Method::new("a.B/C0", Kind::Unary),
    Method::new("a.B/Idempotent", Kind::Unary).idempotent(),
    Method::new("a.B/C1", Kind::ClientStream),
    Method::new("a.B/C2", Kind::ServerStream),
    Method::new("a.B/C3", Kind::Bidi),
];

/// What the servers of a client speak.
#[derive(Clone, Copy)]
enum Speaks {
    Native,
    Grpc,
    JsonLines,
    JsonPost,
}

impl Speaks {
    fn scheme(self) -> &'static str {
        match self {
            Self::Native => "tcp",
            Self::Grpc => "grpc",
            Self::JsonLines => "jsonrpc+tcp",
            Self::JsonPost => "http",
        }
    }
}

#[test]
fn clients_stand_changed_servers_and_other_calls_notice_nothing() {
    check(Speaks::Native);
}

#[test]
fn so_do_clients_of_grpc() {
    check(Speaks::Grpc);
}

#[test]
fn so_do_clients_of_json_rpc_on_lines() {
    check(Speaks::JsonLines);
}

#[test]
fn so_do_clients_of_json_rpc_by_post() {
    check(Speaks::JsonPost);
}

fn check(speaks: Speaks) {
    let (from, count) = (number("RINGWAY_SEED", 1), number("RINGWAY_MUTATIONS", 1_000));
    let panics = panics::count(["no panic is expected"; 2]);
    let rounds = count.div_ceil(CALLS_EACH);
    println!("RINGWAY_SEED={from} RINGWAY_MUTATIONS={count}");
    let mut answered = 0;
    for seed in from..from + rounds {
        let again = Again(seed);
        answered += round(seed, speaks);
        assert_eq!(panics.get(), 0, "panics");
        drop(again);
    }
    let made = rounds * CALLS_EACH;
    println!("{answered} of {made} calls had an answer; wakers made {} more", meddling::made());
    assert!(answered > made / 10, "{answered} of {made} calls had an answer");
}

/// Says how to repeat what has failed.
struct Again(u64);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("failed; again with: RINGWAY_SEED={seed} RINGWAY_MUTATIONS={CALLS_EACH}");
        }
    }
}

/// The calls of one client. How many had an answer.
fn round(seed: u64, speaks: Speaks) -> u64 {
    fastrand::seed(seed);
    let faults = [Faults::none(), Faults::harsh()][fastrand::usize(..2)];
    let socket_buffer_bytes = [2_000, 20_000, 200_000][fastrand::usize(..3)];
    let config = SimConfig { faults, socket_buffer_bytes, ..SimConfig::new(seed) };
    Builder::simulate(config, run(seed, speaks)).expect("it is never stuck")
}

async fn run(seed: u64, speaks: Speaks) -> u64 {
    let bystander = Bystander::begin(&SimServer::new(Default::default(), Moody)).await;
    let pending_before = local_clients::with(|local| local.pending_calls());
    let peers: Vec<_> =
        (0..fastrand::u64(1..4)).map(|n| Peer::start(seed + n * 1_000, speaks)).collect();
    let client = client_of(&peers, speaks);
    meddling::begin_with(&client);
    let answered = Rc::new(Cell::new(0));
    let callers = (0..AT_ONCE).map(|_| {
        let (client, answered) = (client.clone(), Rc::clone(&answered));
        spawn(async move {
            for _ in 0..CALLS_EACH / AT_ONCE as u64 {
                match call(&client).await {
                    true => answered.set(answered.get() + 1),
                    // Servers that were given up are tried again after a while.
                    false => sleep(MS * fastrand::u32(..1_000)).await,
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let ended = timeout(LIMIT, caller).await.expect("all calls end");
        ended.expect("no panic");
    }
    meddling::end();
    until("all that was begun has ended", || has_ended(&client)).await;
    let pool = local_clients::with(|local| local.known_pool(client.id())).expect("it made calls");
    until("nobody waits", || pool.waiting().is_idle()).await;
    drop(client);
    for peer in peers {
        peer.accepting.abort();
        for serving in peer.serving.take() {
            timeout(LIMIT, serving).await.expect("connections end").expect("no panic");
        }
    }
    until("the pool ends", || Rc::strong_count(&pool) == 1).await;
    bystander.end().await;
    until("no call is left", || {
        local_clients::with(|local| local.pending_calls()) == pending_before
    })
    .await;
    answered.get()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let held = timeout(LIMIT, async {
        while !holds() {
            sleep(MS).await;
        }
    });
    assert!(held.await.is_ok(), "{what}, at last");
}

fn client_of(peers: &[Peer], speaks: Speaks) -> Client {
    let policies = [Policy::PeakEwma, Policy::RoundRobin, Policy::Random, Policy::ConsistentHash];
    let mut builder = Client::builder()
        .balance(policies[fastrand::usize(..4)])
        .connect_timeout(Duration::from_secs(1))
        .connections(fastrand::usize(1..3))
        .keep_alive(Duration::from_secs(1), Duration::from_secs(1));
    for peer in peers {
        builder = builder.address(&*format!("{}://{}", speaks.scheme(), peer.address));
    }
    builder.build().expect("addresses")
}

/// Whether all calls and streams were counted to their end.
fn has_ended(client: &Client) -> bool {
    let metrics = client.metrics();
    let of = |method: &Method| metrics.method(Side::Client, method.name()).cloned();
    METHODS.iter().filter_map(of).all(|method| method.in_flight() == 0)
}

/// Makes a call of any kind, and may give it up. Whether it had an answer.
async fn call(client: &Client) -> bool {
    let limit = MS * [5, 50, 500, 3_000][fastrand::usize(..4)];
    let begun = now();
    let client = client.with(options(limit));
    let mut call = begin(client);
    if fastrand::bool() {
        call = Box::pin(meddling::meddled(call));
    }
    let patience = match fastrand::u8(..4) {
        0 => MS * fastrand::u32(..100),
        _ => LIMIT,
    };
    let ended = timeout(patience, call).await;
    let took = now() - begun;
    assert!(took <= patience.min(limit) + Duration::from_secs(1), "{took:?} of {limit:?}");
    ended.unwrap_or(false)
}

fn begin(client: Client) -> Pin<Box<dyn Future<Output = bool>>> {
    match fastrand::u8(..8) {
        0..2 => Box::pin(unary(client, &METHODS[0])),
        2..4 => Box::pin(unary(client, &METHODS[1])),
        4 => Box::pin(client_stream(client)),
        5 => Box::pin(server_stream(client)),
        _ => Box::pin(bidi(client)),
    }
}

fn options(limit: Duration) -> CallOptions {
    let mut options = CallOptions::new().timeout(limit).wait_for_ready(fastrand::bool());
    if fastrand::bool() {
        options = options.hedge();
    }
    if fastrand::u8(..4) == 0 {
        options =
            options.affinity(fastrand::u8(..8)).metadata("key", "x".repeat(fastrand::usize(..80)));
    }
    options
}

fn request() -> Bytes {
    NOISE.slice(..[0, 10, 5_000, 100_000][fastrand::usize(..4)])
}

async fn unary(client: Client, method: &'static Method) -> bool {
    client.unary(method, Codec::<Bytes>::raw(), Codec::<Bytes>::raw(), request()).await.is_ok()
}

async fn client_stream(client: Client) -> bool {
    let (sink, reply) = client.client_stream(&METHODS[2], Codec::raw(), Codec::<Bytes>::raw());
    let sending = spawn(send(sink));
    let is_answered = reply.await.is_ok();
    sending.await.expect("no panic");
    is_answered
}

async fn server_stream(client: Client) -> bool {
    let raw = Codec::<Bytes>::raw();
    read(client.server_stream(&METHODS[3], raw, raw, request())).await
}

async fn bidi(client: Client) -> bool {
    let (sink, replies) = client.bidi(&METHODS[4], Codec::raw(), Codec::raw());
    let sending = spawn(send(sink));
    let is_answered = read(replies).await;
    sending.await.expect("no panic");
    is_answered
}

async fn send(mut sink: Sink<Bytes>) {
    for _ in 0..fastrand::u32(..10) {
        if sink.send(request()).await.is_err() {
            return;
        }
    }
    if fastrand::u8(..4) > 0 {
        sink.finish();
    }
}

async fn read(mut replies: Streaming<Bytes>) -> bool {
    let most = [3, 1_000][fastrand::usize(..2)];
    let mut is_answered = false;
    for _ in 0..most {
        match replies.next().await {
            Ok(Some(_)) => is_answered = true,
            Ok(None) => return true,
            Err(_) => break,
        }
    }
    is_answered
}

/// A server that answers as it likes, and whose words are changed on some connections.
struct Peer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    serving: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

impl Peer {
    fn start(seed: u64, speaks: Speaks) -> Self {
        let (listener, address) = listen();
        let serving = Rc::<RefCell<Vec<_>>>::default();
        let accepting = spawn({
            let serving = Rc::clone(&serving);
            async move {
                for number in 0.. {
                    let stream = Rc::new(accept(&listener).await);
                    let random = Random::new(seed ^ number << 32);
                    serving.borrow_mut().push(match speaks {
                        Speaks::Native => spawn(Talk::new(stream, random).run()),
                        Speaks::Grpc => spawn(grpc::Talk::new(stream, random).run()),
                        Speaks::JsonLines => spawn(json::Talk::new(stream, random, true).run()),
                        Speaks::JsonPost => spawn(json::Talk::new(stream, random, false).run()),
                    });
                }
            }
        });
        Self { address, accepting, serving }
    }
}

/// One connection of it.
struct Talk {
    stream: Rc<Stream>,
    machine: Server,
    running: Vec<StreamId>,
    random: Random,
    /// One of so many outputs is changed.
    changes_every: usize,
    is_greeted: bool,
}

impl Talk {
    fn new(stream: Rc<Stream>, mut random: Random) -> Self {
        let mut config = SESSIONS[random.below(SESSIONS.len())].server.clone();
        config.settings.max_streams = [1, 4, 64][random.below(3)];
        let changes_every = [1, 8, 32, 128][random.below(4)];
        let machine = Server::new(config, Duration::ZERO);
        Self { stream, machine, running: Vec::new(), random, changes_every, is_greeted: false }
    }

    async fn run(mut self) {
        let begun = now();
        if self.random.below(16) == 0 {
            self.replay().await;
        }
        loop {
            self.say().await;
            match timeout(MS * 20, self.stream.recv()).await {
                Ok(Ok(Some(view))) => self.listen(&view, now() - begun),
                Err(_) => {
                    let _given_up = self.machine.handle_timeout(now() - begun);
                }
                Ok(Ok(None) | Err(_)) => return,
            }
            for _ in 0..[0, 0, 0, 3][self.random.below(4)] {
                answer(&mut self.machine, &mut self.running, &mut self.random);
            }
            if self.random.below(4) > 0 {
                self.answer_all();
            }
            match self.random.below(400) {
                0 => self.stream.abort(),
                1 => self.stream.shutdown(),
                2 => self.machine.go_away(GoAwayCode::NoError, MS * 500, "as chance wants"),
                3..=6 => self.machine.lease(self.random.below(6) as u32),
                7 => sleep(MS * self.random.below(4_000) as u32).await,
                _ => {}
            }
        }
    }

    fn answer_all(&mut self) {
        for stream in self.running.drain(..) {
            let message = Some(Body::Shared(NOISE.slice(..self.random.below(3_000))));
            self.machine.respond(stream, Reply { status: 0, meta: &[], message });
        }
    }

    /// Processes what the client sends until the server finds it malformed, as a client that was sent noise may be.
    fn listen(&mut self, mut input: &[u8], now: Duration) {
        while let Ok(Some(event)) = self.machine.receive(&mut input, now) {
            match event {
                ServerEvent::Request { stream, .. } => self.running.push(stream),
                ServerEvent::Message { stream, .. } => self.machine.taken(stream, 1),
                ServerEvent::Cancelled { stream, .. } => self.running.retain(|own| *own != stream),
                _ => {}
            }
        }
    }

    /// Sends what the machine says, or something like it.
    async fn say(&mut self) {
        let mut said = Vec::new();
        self.machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
        if said.is_empty() {
            return;
        }
        let mut parts = if self.is_greeted { frames(&said) } else { split(&said) };
        self.is_greeted = true;
        if self.random.below(self.changes_every) == 0 {
            let others = &SESSIONS[self.random.below(SESSIONS.len())].down;
            mutate(&mut parts, others, &mut self.random);
        }
        write(&self.stream, &mut self.random, &parts.concat()).await;
    }

    /// Says what was said in a recorded session, changed.
    async fn replay(&mut self) {
        let [session, other] = [(); 2].map(|()| &SESSIONS[self.random.below(SESSIONS.len())]);
        let mut parts = session.down.clone();
        mutate(&mut parts, &other.down, &mut self.random);
        self.is_greeted = true;
        write(&self.stream, &mut self.random, &parts.concat()).await;
    }
}

/// Sends bytes in pieces of some length.
async fn write(stream: &Stream, random: &mut Random, bytes: &[u8]) {
    let piece_len = [bytes.len().max(1), 1_000, 7][random.below(3)];
    for piece in bytes.chunks(piece_len) {
        let _pressure = stream.write(piece);
        if piece_len > 7 && random.below(8) == 0 {
            sleep(MS).await;
        }
    }
}
