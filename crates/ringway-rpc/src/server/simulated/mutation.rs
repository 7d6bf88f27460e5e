//! Recorded sessions that were changed, against a whole server: it serves or ends each, nobody panics,
//! nothing is left over, and whoever is served beside them notices nothing.
//!
//! `RINGWAY_MUTATIONS=1000000 cargo test --release -p ringway-rpc --lib simulated::mutation` tries more,
//! from `RINGWAY_SEED` on.

#[path = "../../../../ringway-wire/tests/suite/support/changes.rs"]
pub(super) mod changes;
#[path = "../../../../ringway-wire/tests/suite/support/grpc_sessions.rs"]
mod grpc_sessions;
#[allow(dead_code, reason = "sessions use a part of it")]
#[path = "../../../../ringway-wire/tests/suite/support/random.rs"]
pub(crate) mod random;
#[allow(dead_code, reason = "a part of it is for the machines alone")]
#[path = "../../../../ringway-wire/tests/suite/support/mutation.rs"]
pub(crate) mod sessions;

/// `grpc_sessions` has it under this name.
use sessions as mutation;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Builder, JoinHandle, sleep, spawn, timeout, yield_now};

use super::relay::Relay;
use super::{SimServer, accept, listen, number};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::client::Client;
use crate::server::compression::Compression;
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;
pub(crate) use grpc_sessions::{GRPC_SESSIONS, frames as split_grpc, mutate as mutate_grpc};
use random::Random;
use sessions::SESSIONS;

const MS: Duration = Duration::from_millis(1);
/// Virtual time in which whatever is waited for has happened.
const LIMIT: Duration = Duration::from_secs(900);
/// What the bystander waits for between its calls, at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Sessions one after another with one server.
const SESSIONS_EACH: u64 = 40;
/// Pieces of a session, about: most sessions are cut at every seventh byte, and few are a thousand times
/// as long.
const PIECES_MAX: usize = 1_000;

static METHODS: [Method; 8] = [
    Method::new("a.B/C0", Kind::Unary),
    Method::new("a.B/C1", Kind::ClientStream).concurrency(2),
    Method::new("a.B/C2", Kind::ServerStream),
    Method::new("a.B/C3", Kind::Bidi),
    Method::new("a.B/Say", Kind::Unary),
    Method::new("a.B/Chat", Kind::Bidi),
    Method::new("a.B/Tell", Kind::Unary),
    Method::new("a.B/Watch", Kind::ServerStream),
];

static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "a.B", methods: &METHODS, file_descriptor_set: None };

/// Handlers that answer, wait, fail, forget and panic, as chance wants, and two for the bystander.
pub(crate) struct Moody;

thread_local! {
    /// Handlers that have begun, but for the bystander's.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// How long a handler may wait for nothing.
    static PATIENCE: Cell<Duration> = const { Cell::new(HOUR) };
}

/// Longer than any session is waited for.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

fn begun() {
    BEGUN.with(|begun| begun.set(begun.get() + 1));
}

/// What a handler does before it goes on.
async fn mood() -> Result<(), Status> {
    match fastrand::u8(..24) {
        0 => yield_now().await,
        1 => sleep(MS * fastrand::u32(..20)).await,
        2 => return Err(Status::not_found("as chance wants")),
        3 => sleep(PATIENCE.get()).await,
        4 => panic!("{EXPECTED}"),
        _ => {}
    }
    Ok(())
}

/// What panics on purpose say.
const EXPECTED: &str = "as chance wants";

impl Service for Moody {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&METHODS[0], raw, raw, async |_: Context, request: Bytes| {
            begun();
            mood().await.map(|()| request)
        });
        methods.client_stream(&METHODS[1], raw, raw, collect);
        methods.server_stream(&METHODS[2], raw, raw, repeat);
        methods.bidi(&METHODS[3], raw, raw, async |_: Context, parts, back| {
            begun();
            mood().await?;
            echo(parts, back).await
        });
        methods.unary(&METHODS[4], raw, raw, async |_: Context, request: Bytes| Ok(request));
        methods
            .bidi(&METHODS[5], raw, raw, async |_: Context, parts, back| echo(parts, back).await);
        let json = Codec::<String>::json();
        methods.unary(&METHODS[6], json, json, async |_: Context, text: String| {
            begun();
            tell(text).await
        });
        methods.server_stream(&METHODS[7], json, json, watch);
    }
}

/// Whoever gave the call need not stay until it ends, so that is soon.
async fn tell(text: String) -> Result<String, Status> {
    match timeout(LIMIT / 4, mood()).await {
        Ok(mood) => mood.map(|()| text),
        Err(_elapsed) => Ok(text),
    }
}

async fn watch(_: Context, text: String, mut texts: Sink<String>) -> Result<(), Status> {
    begun();
    for _ in 0..fastrand::u32(..100) {
        mood().await?;
        texts.send(text.clone()).await?;
    }
    Ok(())
}

async fn collect(_: Context, mut parts: Streaming<Bytes>) -> Result<Bytes, Status> {
    begun();
    let mut len = 0;
    while let Some(part) = parts.next().await? {
        mood().await?;
        len += part.len();
    }
    Ok(len.to_string().into())
}

async fn repeat(_: Context, request: Bytes, mut out: Sink<Bytes>) -> Result<(), Status> {
    begun();
    for _ in 0..request.len() % 40 {
        mood().await?;
        out.send(request.clone()).await?;
    }
    Ok(())
}

async fn echo(mut parts: Streaming<Bytes>, mut back: Sink<Bytes>) -> Result<(), Status> {
    while let Some(part) = parts.next().await? {
        back.send(part).await?;
    }
    Ok(())
}

/// What is changed, and how.
pub(super) struct Protocol {
    /// The test that has it.
    pub(super) test: &'static str,
    /// What the clients of its sessions have said.
    pub(super) sessions: fn() -> Vec<&'static Vec<Vec<u8>>>,
    pub(super) mutate: Mutate,
    /// How long a handler may wait for nothing.
    pub(super) patience: Duration,
    /// What a library says that ends its own connection by a panic in a debug build.
    pub(super) forgiven: Option<&'static str>,
}

/// Changes a session's frames, with those of another at hand.
pub(super) type Mutate = fn(&mut Vec<Vec<u8>>, &[Vec<u8>], &mut Random);

#[test]
fn servers_stand_changed_sessions_and_others_notice_nothing() {
    check(&Protocol {
        test: "servers_stand_changed_sessions",
        sessions: || SESSIONS.iter().map(|session| &session.up).collect(),
        mutate: sessions::mutate,
        patience: HOUR,
        forgiven: None,
    });
}

#[test]
fn servers_stand_changed_sessions_of_grpc_and_others_notice_nothing() {
    check(&Protocol {
        test: "servers_stand_changed_sessions_of_grpc",
        sessions: || GRPC_SESSIONS.iter().collect(),
        mutate: grpc_sessions::mutate,
        patience: HOUR,
        forgiven: None,
    });
}

pub(super) fn check(protocol: &'static Protocol) {
    let (from, count) = (number("RINGWAY_SEED", 1), number("RINGWAY_MUTATIONS", 400));
    let panics = panics::count([EXPECTED, protocol.forgiven.unwrap_or(EXPECTED)]);
    PATIENCE.set(protocol.patience);
    let rounds = count.div_ceil(SESSIONS_EACH);
    println!("{}: RINGWAY_SEED={from} RINGWAY_MUTATIONS={count}", protocol.test);
    for seed in from..from + rounds {
        let again = Again(seed);
        round(protocol, seed);
        assert_eq!(panics.get(), 0, "panics that nobody wanted");
        drop(again);
    }
    let begun = BEGUN.get();
    assert!(begun > count / 4, "{begun} handlers were reached by {count} sessions");
}

/// Says how to repeat what has failed.
struct Again(u64);

impl Drop for Again {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("failed; again with: RINGWAY_SEED={seed} RINGWAY_MUTATIONS={SESSIONS_EACH}");
        }
    }
}

/// Some sessions with one server.
fn round(protocol: &'static Protocol, seed: u64) {
    fastrand::seed(seed);
    let faults = [Faults::none(), Faults::harsh()][fastrand::usize(..2)];
    let socket_buffer_bytes = [2_000, 20_000, 200_000][fastrand::usize(..3)];
    let config = SimConfig { faults, socket_buffer_bytes, ..SimConfig::new(seed) };
    Builder::simulate(config, run(protocol, seed)).expect("it is never stuck");
}

fn settings() -> Settings {
    let mut native = SESSIONS[fastrand::usize(..SESSIONS.len())].server.clone();
    native.settings.max_streams = native.settings.max_streams.max(64);
    Settings {
        in_flight_per_connection_max: native.settings.max_streams as usize,
        native,
        unread_bytes_max: [1 << 20, 256 << 20][fastrand::usize(..2)],
        queue_room: [0, 2, 256][fastrand::usize(..3)],
        adaptive: fastrand::bool(),
        compression: fastrand::bool().then(Compression::of_all_services),
        ..Settings::default()
    }
}

async fn run(protocol: &Protocol, seed: u64) {
    let server = SimServer::new(settings(), Moody);
    let bystander = Bystander::begin(&server).await;
    let mut random = Random::new(seed);
    let (listener, address) = listen();
    let recorded = (protocol.sessions)();
    for _ in 0..SESSIONS_EACH {
        bystander.sessions.set(bystander.sessions.get() + 1);
        let mut frames = recorded[random.below(recorded.len())].clone();
        let others = recorded[random.below(recorded.len())];
        (protocol.mutate)(&mut frames, others, &mut random);
        let serving = server.serve(address);
        let peer = Rc::new(accept(&listener).await);
        play(peer, &frames.concat(), &mut random).await;
        let ended = timeout(LIMIT, serving).await.expect("the connection ends");
        if let Err(panic) = ended {
            let is_forgiven = |text| panic.to_string().contains(text);
            assert!(protocol.forgiven.is_some_and(is_forgiven), "its task panics: {panic}");
        }
    }
    bystander.end().await;
    let core = server.core().expect("it has served");
    let is_idle = || {
        let stats = server.shared.stats();
        let connections = core.connections().all().len();
        (connections, stats.in_flight, stats.unread_bytes) == (0, 0, 0)
    };
    let idle = timeout(LIMIT, async {
        while !is_idle() {
            sleep(MS).await;
        }
    });
    idle.await.expect("no connection, handler or message is left over");
}

/// Sends a session, reads as much as it likes, and goes in one of the ways in which peers go.
async fn play(peer: Rc<Stream>, input: &[u8], random: &mut Random) {
    let reads = random.below(4);
    let reading = (reads > 0).then(|| spawn(read(Rc::clone(&peer), reads)));
    let piece_len = [input.len().max(1), 1_000, 100, 7][random.below(4)];
    let piece_len = piece_len.max(input.len() / PIECES_MAX);
    let pauses = random.below(8) == 0;
    for piece in input.chunks(piece_len) {
        let _pressure = peer.write(piece);
        match random.below(40) {
            0 => sleep(MS * random.below(10) as u32).await,
            1 if pauses => sleep(MS * random.below(4_000) as u32).await,
            2..=9 => yield_now().await,
            _ => {}
        }
    }
    // Whoever does not read what is said may not be able to say everything.
    let said = timeout(MS * 100, peer.flushed()).await;
    sleep(MS * random.below(100) as u32).await;
    match random.below(3) {
        0 => peer.abort(),
        1 if said.is_ok() => peer.shutdown(),
        _ => {}
    }
    if let Some(reading) = reading {
        reading.abort();
    }
}

/// Reads everything, or now and then.
async fn read(peer: Rc<Stream>, how: usize) {
    while let Ok(Some(_)) = peer.recv().await {
        if how == 1 {
            sleep(MS * 5).await;
        }
    }
}

/// Somebody who is served by the same core.
pub(crate) struct Bystander {
    /// Sessions that have begun, where they are counted.
    sessions: Rc<Cell<u64>>,
    stops: Rc<Cell<bool>>,
    served: JoinHandle<Result<u32, Status>>,
}

impl Bystander {
    pub(crate) async fn begin(server: &Rc<SimServer>) -> Self {
        let relay = Relay::start(Some(Rc::clone(server)));
        let client = Client::connect(&*format!("tcp://{}", relay.address)).expect("an address");
        let (sessions, stops) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let served = spawn(be_served(client, Rc::clone(&sessions), Rc::clone(&stops)));
        Self { sessions, stops, served }
    }

    pub(crate) async fn end(self) {
        self.stops.set(true);
        let served = timeout(LIMIT, self.served).await.expect("it is served in time");
        let served = served.expect("no panic").expect("all its calls succeed");
        assert!(served > 0, "it was there");
    }
}

/// It pauses for less time than most sessions take, and longer and longer while one of those that are
/// counted goes on: some last for minutes, in which next to nothing happens.
async fn be_served(
    client: Client,
    sessions: Rc<Cell<u64>>,
    stops: Rc<Cell<bool>>,
) -> Result<u32, Status> {
    let (mut session, mut pause) = (0, PAUSE);
    let raw = Codec::<Bytes>::raw();
    let (mut to, mut from) = client.bidi(&METHODS[5], raw, raw);
    for turn in 0.. {
        if stops.get() && turn > 0 {
            to.finish();
            assert_eq!(from.next().await?, None, "nothing that it has not sent");
            return Ok(turn);
        }
        let mine = Bytes::from(format!("bystander {turn}"));
        assert_eq!(client.unary(&METHODS[4], raw, raw, mine.clone()).await?, mine);
        to.send(mine.clone()).await?;
        assert_eq!(from.next().await?, Some(mine));
        let is_same = sessions.get() > 0 && sessions.get() == session;
        session = sessions.get();
        pause = if is_same { (pause * 2).min(PAUSE_MAX) } else { PAUSE };
        sleep(pause).await;
    }
    unreachable!("it is told to stop")
}

/// Panics of this thread, which tasks of servers and clients contain.
pub(crate) mod panics {
    use super::*;

    use std::sync::Once;

    struct Seen {
        count: Rc<Cell<usize>>,
        expected: [&'static str; 2],
    }

    thread_local! {
        static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
    }

    /// Counts those from now on, but for those that say what is `expected`.
    pub(crate) fn count(expected: [&'static str; 2]) -> Rc<Cell<usize>> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let former = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if !is_expected(panic.payload_as_str()) {
                    former(panic);
                }
            }));
        });
        let count = Rc::<Cell<usize>>::default();
        SEEN.replace(Some(Seen { count: Rc::clone(&count), expected }));
        count
    }

    /// Counts it otherwise, if this thread counts.
    fn is_expected(said: Option<&str>) -> bool {
        let expected = SEEN.try_with(|seen| {
            let seen = seen.borrow();
            let Some(Seen { count, expected }) = &*seen else { return false };
            let is_expected = said.is_some_and(|said| expected.contains(&said));
            count.set(count.get() + usize::from(!is_expected));
            is_expected
        });
        expected == Ok(true)
    }
}
