//! The configuration of `ringway bench`, resolved.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::bench_mongo::{self, MongoJob, MongoLoad};
use super::bench_registry::{self, RegistryLoad};
use super::by_position::{merge, merge_list};
use super::call::{Access, resolve_access, with_service};
use super::choices::{Backend, Format, Protocol, RpcMode};
use super::codec;
use super::flags::{BenchCallFlags, BenchCommand, BenchFlags, RpcFlags, StreamFlags, SuiteFlags};
use super::target::{Target, target};
use super::values::{Cores, ValueError};
use crate::limits;
use crate::payload::PACKET_BYTES_MIN;

/// The suites to run, with all settings resolved.
#[derive(Debug, PartialEq)]
pub(crate) struct BenchConfig {
    /// The suites in order; at least one.
    pub(crate) suites: Vec<Suite>,
    pub(crate) length: RunLength,
    pub(crate) target: Target,
    pub(crate) placement: Placement,
    pub(crate) backend: Backend,
    /// The time that a core of the server polls before it sleeps; `None` leaves it to the runtime.
    pub(crate) spin: Option<Duration>,
    /// The same for the client.
    pub(crate) client_spin: Option<Duration>,
    /// Whether the peer programs get rows.
    pub(crate) peers: bool,
    pub(crate) format: Format,
    /// The file for the page with charts.
    pub(crate) report: Option<PathBuf>,
    /// Whether tables ignore the width of the screen.
    pub(crate) is_wide: bool,
}

/// One suite with the lists whose product is its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Suite {
    PingPong {
        connections: Vec<u32>,
        sizes: Vec<u32>,
    },
    Receive {
        connections: Vec<u32>,
        sizes: Vec<u32>,
        modes: Vec<SendMode>,
    },
    Rpc {
        connections: Vec<u32>,
        sizes: Vec<u32>,
        loads: Vec<RpcLoad>,
        protocols: Vec<Protocol>,
    },
    Stream {
        connections: Vec<u32>,
        sizes: Vec<u32>,
        loads: Vec<StreamLoad>,
        protocols: Vec<Protocol>,
    },
    Call {
        connections: Vec<u32>,
        paces: Vec<Pace>,
        job: CallJob,
    },
    /// Connections with what they do.
    Registry {
        rows: Vec<(u32, RegistryLoad)>,
        sizes: Vec<u32>,
    },
    Mongo {
        connections: Vec<u32>,
        loads: Vec<MongoLoad>,
        job: MongoJob,
    },
    /// The registry inside one process.
    Local {
        workers: u32,
        cores: Cores,
    },
    Codec,
}

/// The workload of each connection of the rpc suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RpcLoad {
    pub(crate) mode: RpcMode,
    pub(crate) pace: Pace,
}

/// The method and request of the call suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallJob {
    pub(crate) access: Access,
    /// `package.Service/Method`.
    pub(crate) method: String,
    /// The request as written; `-` stands for standard input.
    pub(crate) message: String,
    /// The expected reply of each call, as written.
    pub(crate) expect: Option<String>,
    /// Whether messages are raw bytes.
    pub(crate) is_binary: bool,
}

/// When a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// When another has ended: this many are in flight on each connection.
    Closed { depth: u32 },
    /// When it is due: this many per second on all connections. A share of them, in percent, is slow.
    Open { rate: u64, slow_percent: u32 },
}

/// The workload of each connection of the stream suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamLoad {
    /// Streams of this many frames, each echoed, with a window of unanswered ones.
    Echo { frames: u32, window: u32 },
    /// One endless stream from the server.
    OneWay,
}

/// How the receive suite's client hands packets to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// This many packets in one write.
    Batch(u32),
    /// One send call for each.
    PerPacket,
}

/// Durations of each row's phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunLength {
    /// The warm-up before each measured interval.
    pub(crate) warmup: Duration,
    /// The measured interval.
    pub(crate) measured: Duration,
    /// The number of repeats; at least one.
    pub(crate) repeat: u32,
}

/// The cores of each side's pinned threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) server: Cores,
    /// Different from the server's if the machine has enough cores and no flag says otherwise.
    pub(crate) client: Cores,
}

impl Suite {
    /// The protocols that its rows compare; none if there is no choice.
    pub(crate) fn protocols(&self) -> &[Protocol] {
        match self {
            Self::Rpc { protocols, .. } | Self::Stream { protocols, .. } => protocols,
            Self::Registry { .. } => &[Protocol::Grpc],
            Self::PingPong { .. }
            | Self::Receive { .. }
            | Self::Call { .. }
            | Self::Local { .. }
            | Self::Mongo { .. }
            | Self::Codec => &[],
        }
    }
}

/// Returns the `mode` parameter of a report's row.
impl fmt::Display for SendMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(packets) => write!(f, "batch {packets}"),
            Self::PerPacket => f.write_str("per-packet"),
        }
    }
}

/// # Errors
/// Flags contradict each other, or ask for more than the machine has.
pub(super) fn resolve(raw: Box<BenchCommand>, allowed: &Cores) -> Result<BenchConfig, ValueError> {
    let BenchCommand { mut common, suite } = *raw;
    let measured_default = match suite {
        Some(SuiteFlags::Codec) => CODEC_SECONDS,
        Some(_) => SUITE_SECONDS,
        None => EVERYTHING_SECONDS,
    };
    let suites = match suite {
        None => everything(&common)?,
        Some(SuiteFlags::Pingpong { threads, block_size, sessions, time }) => {
            merge("threads (-i)", &mut common.threads, threads)?;
            merge("time (-d)", &mut common.seconds, time)?;
            merge_list("block size (-s)", &mut common.size, block_size)?;
            merge_list("sessions (-c)", &mut common.connections, sessions)?;
            vec![ping_pong(&common)?]
        }
        Some(SuiteFlags::Receive { batch, per_packet }) => {
            vec![receive(&common, batch, per_packet)?]
        }
        Some(SuiteFlags::Rpc { load, spoken }) => {
            vec![rpc(&common, &load, protocols(spoken.protocol))?]
        }
        Some(SuiteFlags::Grpc(load)) => vec![rpc(&common, &load, vec![Protocol::Grpc])?],
        Some(SuiteFlags::Jsonrpc(load)) => vec![rpc(&common, &load, vec![Protocol::Jsonrpc])?],
        Some(SuiteFlags::Stream(flags)) => vec![stream(&common, flags)?],
        Some(SuiteFlags::Call(flags)) => vec![call(&mut common, flags)?],
        Some(SuiteFlags::Registry(flags)) => {
            vec![bench_registry::resolve(&common, flags, allowed)?]
        }
        Some(SuiteFlags::Mongo(flags)) => {
            let (loads, job) = bench_mongo::resolve(&mut common, flags)?;
            let connections = list("-c", &common.connections, &[10, 100])?;
            vec![Suite::Mongo { connections, loads, job }]
        }
        Some(SuiteFlags::Codec) => {
            codec::check(&common)?;
            vec![Suite::Codec]
        }
    };
    let target = target(&common, &suites)?;
    Ok(BenchConfig {
        suites,
        target,
        length: RunLength {
            warmup: common.warmup.unwrap_or(WARMUP),
            measured: common.seconds.unwrap_or(measured_default),
            repeat: common.repeat.unwrap_or(REPEAT),
        },
        placement: placement(&common, allowed)?,
        backend: common.backend,
        spin: common.spin,
        client_spin: common.client_spin.or(common.spin),
        peers: common.peers,
        format: common.format,
        report: common.report,
        is_wide: common.wide,
    })
}

fn ping_pong(common: &BenchFlags) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1, 10, 100, 1000])?;
    let sizes = list("-s", &common.size, &[16384])?;
    Ok(Suite::PingPong { connections, sizes })
}

fn receive(common: &BenchFlags, batch: Option<u32>, per_packet: bool) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1, 100, 1000, 10_000])?;
    let sizes = list("-s", &common.size, &[32])?;
    if let Some(size) = sizes.iter().find(|&&size| (size as usize) < PACKET_BYTES_MIN) {
        return Err(ValueError::new(format!(
            "-s {size} is too small for a packet: length, sequence and connection take {PACKET_BYTES_MIN} bytes"
        )));
    }
    let modes = match (batch, per_packet) {
        (None, false) => vec![SendMode::Batch(BATCH_PACKETS), SendMode::PerPacket],
        (Some(packets), true) => vec![SendMode::Batch(packets), SendMode::PerPacket],
        (Some(packets), false) => vec![SendMode::Batch(packets)],
        (None, true) => vec![SendMode::PerPacket],
    };
    check_batches(&sizes, &modes)?;
    Ok(Suite::Receive { connections, sizes, modes })
}

fn check_batches(sizes: &[u32], modes: &[SendMode]) -> Result<(), ValueError> {
    for mode in modes {
        let SendMode::Batch(packets) = *mode else {
            continue;
        };
        let too_large =
            |&&size: &&u32| u64::from(size) * u64::from(packets) > limits::BATCH_BYTES_MAX;
        if let Some(size) = sizes.iter().find(too_large) {
            return Err(ValueError::new(format!(
                "--batch {packets} of -s {size} bytes is more than {} MiB in one write; lower one of them",
                limits::BATCH_BYTES_MAX >> 20
            )));
        }
    }
    Ok(())
}

/// A short run of each suite, with calls and streams as in the report that they come from.
fn everything(common: &BenchFlags) -> Result<Vec<Suite>, ValueError> {
    let calls = |connections, size, depth| -> Result<Suite, ValueError> {
        Ok(Suite::Rpc {
            connections: list("-c", &common.connections, &[connections])?,
            sizes: list("-s", &common.size, &[size])?,
            loads: vec![RpcLoad { mode: RpcMode::Unary, pace: Pace::Closed { depth } }],
            protocols: vec![Protocol::Native],
        })
    };
    let frames = |window| StreamLoad::Echo { frames: FRAMES, window };
    Ok(vec![
        ping_pong(common)?,
        receive(common, None, false)?,
        calls(200, 47, 4)?,
        calls(2, 47, 400)?,
        calls(100, 65_536, 1)?,
        Suite::Stream {
            connections: list("-c", &common.connections, &[100])?,
            sizes: list("-s", &common.size, &[128])?,
            loads: vec![frames(1), frames(8)],
            protocols: vec![Protocol::Native],
        },
    ])
}

/// The native protocol by default.
fn protocols(named: Vec<Protocol>) -> Vec<Protocol> {
    if named.is_empty() { vec![Protocol::Native] } else { named }
}

fn rpc(
    common: &BenchFlags,
    flags: &RpcFlags,
    protocols: Vec<Protocol>,
) -> Result<Suite, ValueError> {
    if !flags.rate.is_empty() && !flags.depth.is_empty() {
        return Err(ValueError::new(
            "--rate begins calls when they are due, so -l has no meaning beside it; drop one",
        ));
    }
    let paces = match flags.rate.is_empty() {
        true => closed(&list("-l", &flags.depth, &[1])?),
        false => ladder(&flags.rate, flags.slow.unwrap_or(0))?,
    };
    let modes = if flags.mode.is_empty() { &[RpcMode::Unary][..] } else { &flags.mode };
    if flags.slow.is_some() && modes != [RpcMode::Unary] {
        return Err(ValueError::new("--slow is for unary calls; drop -m"));
    }
    let is_stream_of_requests =
        |mode: &RpcMode| matches!(mode, RpcMode::ClientStream | RpcMode::Bidi);
    if protocols.contains(&Protocol::Jsonrpc) && modes.iter().any(is_stream_of_requests) {
        return Err(ValueError::new(
            "JSON-RPC carries no stream of requests; use -m unary,server_stream",
        ));
    }
    let pairs = modes.iter().flat_map(|&mode| paces.iter().map(move |&pace| (mode, pace)));
    Ok(Suite::Rpc {
        connections: list("-c", &common.connections, &[100])?,
        sizes: list("-s", &common.size, &[256])?,
        loads: pairs.map(|(mode, pace)| RpcLoad { mode, pace }).collect(),
        protocols,
    })
}

/// The address stands where `call` has it, so the target is known here.
fn call(common: &mut BenchFlags, flags: BenchCallFlags) -> Result<Suite, ValueError> {
    let BenchCallFlags { uri, method, message, expect, depth, rate, binary, access } = flags;
    if common.addr.is_some() {
        return Err(ValueError::new("--addr is what call has as its URI; drop --addr"));
    }
    if !common.size.is_empty() {
        return Err(ValueError::new("-s has no meaning for call, whose message has its size"));
    }
    if common.server_cores.is_some() {
        return Err(ValueError::new("--server-cores: call does not start the server; drop it"));
    }
    if uri.scheme().is_json_rpc() {
        let why = "its methods are not described; `bench jsonrpc` measures ringway.bench.Echo";
        return Err(ValueError::new(format!("{uri}: {why}")));
    }
    common.addr = Some(uri.clone());
    let method = with_service(method, &uri)?;
    let paces = match rate.is_empty() {
        true => closed(&list("-p", &depth, &[1])?),
        false => ladder(&rate, 0)?,
    };
    Ok(Suite::Call {
        connections: list("-c", &common.connections, &[100])?,
        paces,
        job: CallJob {
            access: resolve_access(uri, access)?,
            method,
            message,
            expect,
            is_binary: binary,
        },
    })
}

/// Makes one open loop for each rate.
fn ladder(rates: &[u64], slow_percent: u32) -> Result<Vec<Pace>, ValueError> {
    if rates.len() > limits::LIST_VALUES_MAX {
        let most = limits::LIST_VALUES_MAX;
        let text = format!("--rate lists {} values; {most} is the most", rates.len());
        return Err(ValueError::new(text));
    }
    if !rates.is_sorted_by(|low, high| low < high) {
        return Err(ValueError::new("--rate lists its rates in rising order, each once"));
    }
    Ok(rates.iter().map(|&rate| Pace::Open { rate, slow_percent }).collect())
}

fn closed(depths: &[u32]) -> Vec<Pace> {
    depths.iter().map(|&depth| Pace::Closed { depth }).collect()
}

fn stream(common: &BenchFlags, flags: StreamFlags) -> Result<Suite, ValueError> {
    let frames = list("-f", &flags.frames, &[FRAMES])?;
    let windows = list("-w", &flags.window, &[1])?;
    if flags.spoken.protocol.contains(&Protocol::Jsonrpc) {
        return Err(ValueError::new("JSON-RPC carries no stream of requests; use `bench jsonrpc`"));
    }
    let mut loads = Vec::new();
    for &frames in &frames {
        for &window in &windows {
            if window > frames {
                return Err(ValueError::new(format!(
                    "-w {window} is more than the {frames} frames of a stream; raise -f"
                )));
            }
            loads.push(StreamLoad::Echo { frames, window });
        }
    }
    Ok(Suite::Stream {
        connections: list("-c", &common.connections, &[if flags.one_way { 1 } else { 100 }])?,
        sizes: list("-s", &common.size, &[128])?,
        loads: if flags.one_way { vec![StreamLoad::OneWay] } else { loads },
        protocols: protocols(flags.spoken.protocol),
    })
}

pub(super) fn list(flag: &str, given: &[u32], default: &[u32]) -> Result<Vec<u32>, ValueError> {
    if given.len() > limits::LIST_VALUES_MAX {
        return Err(ValueError::new(format!(
            "{flag} lists {} values; {} is the most",
            given.len(),
            limits::LIST_VALUES_MAX
        )));
    }
    Ok(if given.is_empty() { default } else { given }.to_vec())
}

/// By default the server gets the first cores and the client the next; a process with a
/// single core shares it.
fn placement(common: &BenchFlags, allowed: &Cores) -> Result<Placement, ValueError> {
    let count = allowed.as_slice().len();
    let threads = match common.threads.unwrap_or(0) {
        0 => (count / 2).max(1),
        threads => usize::from(threads),
    };
    let explicit = |flag, cores: &Option<Cores>| {
        cores.clone().map(|cores| cores.within(allowed, flag)).transpose()
    };
    let server = explicit("--server-cores", &common.server_cores)?;
    let client = explicit("--client-cores", &common.client_cores)?;
    let (server, client) = match (server, client) {
        (Some(server), Some(client)) => (server, client),
        (Some(server), None) => (server.clone(), beside(&server, allowed, threads)?),
        (None, Some(client)) => (beside(&client, allowed, threads)?, client),
        (None, None) if count == 1 && threads == 1 => (allowed.clone(), allowed.clone()),
        (None, None) if 2 * threads > count => {
            return Err(ValueError::new(format!(
                "-i {threads} needs {} cores for both sides, but {count} are allowed; lower -i, or let the \
                 sides share cores with --server-cores and --client-cores",
                2 * threads
            )));
        }
        (None, None) => {
            let server = allowed.take(threads);
            (server.clone(), beside(&server, allowed, threads)?)
        }
    };
    Ok(Placement { server, client })
}

/// Returns `count` allowed cores that the other side has not `taken`.
fn beside(taken: &Cores, allowed: &Cores, count: usize) -> Result<Cores, ValueError> {
    let free = allowed.as_slice().iter().copied().filter(|core| !taken.as_slice().contains(core));
    let free: Vec<usize> = free.collect();
    let left = free.len();
    match Cores::new(free) {
        Some(free) if left >= count => Ok(free.take(count)),
        _ => Err(ValueError::new(format!(
            "{count} threads need a core each, but beside the other side's {taken} only {left} are left; lower \
             -i, or let the sides share cores with --server-cores and --client-cores"
        ))),
    }
}

/// One suite has time for steadier figures; all suites together take less than 90 seconds.
const SUITE_SECONDS: Duration = Duration::from_secs(2);
const EVERYTHING_SECONDS: Duration = Duration::from_millis(500);
/// Half a million operations; there are many rows.
const CODEC_SECONDS: Duration = Duration::from_millis(100);
const WARMUP: Duration = Duration::from_millis(200);
/// The least number that shows a spread.
const REPEAT: u32 = 5;
/// 64 KiB of 32-byte packets: larger writes no longer save calls that can be noticed.
const BATCH_PACKETS: u32 = 2048;
/// Frames of a stream, as in the report that the suite comes from.
const FRAMES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    fn config(words: &str) -> BenchConfig {
        match parse_words(words).expect(words) {
            Config::Bench(config) => config,
            other => panic!("{words}: {other:?}"),
        }
    }

    #[test]
    fn a_bare_bench_runs_everything() {
        let config = config("bench");
        let named = |suite: &Suite| std::mem::discriminant(suite);
        let kinds: std::collections::HashSet<_> = config.suites.iter().map(named).collect();
        assert_eq!(kinds.len(), 4);
        assert_eq!(config.length.repeat, 5);
    }

    #[test]
    fn flags_go_before_or_after_the_suite() {
        let after = config("bench pingpong -c 1,10 -s 64 -d 0.5 --peers --format json --repeat 3");
        let before = config("bench -c 1,10 -s 64 -d 0.5 --peers --format json --repeat 3 pingpong");
        assert_eq!(after, before);
        let suite = Suite::PingPong { connections: vec![1, 10], sizes: vec![64] };
        assert_eq!(after.suites, [suite]);
        assert_eq!(after.length.measured, Duration::from_millis(500));
        assert_eq!((after.length.repeat, after.peers, after.format), (3, true, Format::Json));
    }

    #[test]
    fn positions_mean_threads_size_sessions_and_time() {
        let by_position = config("bench pingpong 2 16384 100 10");
        let by_flag = config("bench pingpong -i 2 -s 16384 -c 100 -d 10");
        assert_eq!(by_position, by_flag);
        assert_eq!(by_flag.placement.client.as_slice(), [2, 3]);
    }

    #[test]
    fn modes_of_receive() {
        let modes = |words: &str| match config(words).suites.remove(0) {
            Suite::Receive { modes, .. } => modes,
            other => panic!("{other:?}"),
        };
        assert_eq!(modes("bench receive"), [SendMode::Batch(2048), SendMode::PerPacket]);
        assert_eq!(modes("bench receive --batch"), [SendMode::Batch(2048)]);
        assert_eq!(modes("bench receive --batch 64 -c 4"), [SendMode::Batch(64)]);
        assert_eq!(modes("bench receive --per-packet"), [SendMode::PerPacket]);
    }

    #[test]
    fn calls_take_the_letters_of_the_original() {
        let config = config("bench rpc -c 200 -s 47 -l 1,4 -m unary,client_stream");
        let load = |mode, depth| RpcLoad { mode, pace: Pace::Closed { depth } };
        let expected = Suite::Rpc {
            connections: vec![200],
            sizes: vec![47],
            loads: vec![
                load(RpcMode::Unary, 1),
                load(RpcMode::Unary, 4),
                load(RpcMode::ClientStream, 1),
                load(RpcMode::ClientStream, 4),
            ],
            protocols: vec![Protocol::Native],
        };
        assert_eq!(config.suites, [expected]);
    }

    #[test]
    fn an_open_loop_has_a_rate_in_place_of_a_depth() {
        let Suite::Rpc { loads, .. } = &config("bench rpc --rate 5000 --slow 1").suites[0] else {
            panic!("the rpc suite");
        };
        assert_eq!(loads[0].pace, Pace::Open { rate: 5000, slow_percent: 1 });
    }

    #[test]
    fn streams_have_frames_and_windows() {
        let loads = |words: &str| match config(words).suites.remove(0) {
            Suite::Stream { loads, .. } => loads,
            other => panic!("{other:?}"),
        };
        let echo = |frames, window| StreamLoad::Echo { frames, window };
        assert_eq!(loads("bench stream -w 1,8"), [echo(16, 1), echo(16, 8)]);
        assert_eq!(loads("bench stream -f 4 -w 2"), [echo(4, 2)]);
        assert_eq!(loads("bench stream --one-way"), [StreamLoad::OneWay]);
    }

    #[test]
    fn calls_and_streams_have_protocols() {
        assert_eq!(config("bench grpc -c 2"), config("bench rpc --protocol grpc -c 2"));
        let protocols = |words: &str| config(words).suites[0].protocols().to_vec();
        let both = [Protocol::Native, Protocol::Grpc];
        assert_eq!(protocols("bench rpc --protocol native,grpc"), both);
        assert_eq!(protocols("bench stream --protocol native,grpc"), both);
        assert_eq!(protocols("bench stream"), [Protocol::Native]);
    }

    #[test]
    fn a_call_has_its_own_address() {
        let config = config("bench call tls://a:1 m.M/Go {} -c 2 -p 1,8 -H x=1 --expect {} -d 1");
        let Suite::Call { connections, paces, job } = &config.suites[0] else {
            panic!("{config:?}");
        };
        assert_eq!(connections, &[2]);
        assert_eq!(paces, &closed(&[1, 8]));
        assert_eq!(
            (&*job.method, &*job.message, job.expect.as_deref()),
            ("m.M/Go", "{}", Some("{}"))
        );
        assert_eq!(job.access.metadata, [("x".to_owned(), "1".to_owned())]);
        assert_eq!(config.target, Target::Running("tls://a:1".parse().expect("an address")));
        let open = super::super::tests::parse_words("bench call tcp://a:1 m.M/Go --rate 5");
        let Ok(Config::Bench(BenchConfig { suites, .. })) = open else { panic!("{open:?}") };
        let Suite::Call { paces, .. } = &suites[0] else { panic!("{suites:?}") };
        assert_eq!(paces, &[Pace::Open { rate: 5, slow_percent: 0 }]);
    }

    #[test]
    fn the_client_may_wait_otherwise_than_the_server() {
        let spins = |words: &str| {
            let config = config(words);
            (config.spin, config.client_spin)
        };
        let span = |us| Some(Duration::from_micros(us));
        assert_eq!(spins("bench"), (None, None));
        assert_eq!(spins("bench --spin 5us"), (span(5), span(5)));
        assert_eq!(spins("bench --client-spin 0"), (None, span(0)));
        assert_eq!(spins("bench --spin 5us --client-spin 0"), (span(5), span(0)));
    }

    #[test]
    fn originals_names_of_flags_are_understood() {
        let config = config("bench receive --concurrency 4 --packet-size 64");
        let modes = vec![SendMode::Batch(2048), SendMode::PerPacket];
        let suite = Suite::Receive { connections: vec![4], sizes: vec![64], modes };
        assert_eq!(config.suites, [suite]);
    }

    #[test]
    fn sides_are_pinned_apart() {
        let check = |words: &str, server: &[usize], client: &[usize]| {
            let placement = config(words).placement;
            assert_eq!(placement.server.as_slice(), server, "{words}");
            assert_eq!(placement.client.as_slice(), client, "{words}");
        };
        check("bench", &[0, 1], &[2, 3]);
        check("bench -i 1", &[0], &[1]);
        check("bench -i 1 --server-cores 1", &[1], &[0]);
        check("bench -i 1 --client-cores 0", &[1], &[0]);
        check("bench --server-cores 0-3 --client-cores 0-3", &[0, 1, 2, 3], &[0, 1, 2, 3]);
    }

    #[test]
    fn one_core_is_shared() {
        let args = ["ringway", "bench"].map(str::to_owned).to_vec();
        let allowed = "5".parse().expect("a core");
        let Ok(Config::Bench(config)) = super::super::parse(args, &allowed) else {
            panic!("a bare bench parses on one core");
        };
        assert_eq!(config.placement, Placement { server: allowed.clone(), client: allowed });
    }
}
