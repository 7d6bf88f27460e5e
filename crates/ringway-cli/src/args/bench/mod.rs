//! The configuration of `ringway bench`, resolved.

mod by_position;
mod call;
mod codec;
mod event;
mod flags;
mod list;
mod mongo;
mod mongo_flags;
mod placement;
mod registry;
mod rpc;
mod sockets;
mod stream;
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use super::choices::{Backend, Format, Protocol, RpcMode};
use super::target::{Target, target};
use super::values::{Cores, ValueError};
use by_position::{merge, merge_list};
use flags::SuiteFlags;
use list::list;
use sockets::{idle, ping_pong, receive, roundtrip, ttcp};

pub(super) use flags::{BenchCommand, BenchFlags};
pub(crate) use placement::Placement;
pub(crate) use suite::{
    CallJob, EventLoad, MongoJob, MongoLoad, MongoSend, Pace, RegistryLoad, RpcLoad, SendMode,
    StreamLoad, Suite,
};

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
    /// The file, or the pattern of files, for the latencies.
    pub(crate) histogram: Option<PathBuf>,
    /// Whether tables ignore the width of the screen.
    pub(crate) is_wide: bool,
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

/// # Errors
/// Flags contradict each other, or ask for more than the machine has.
pub(super) fn resolve(raw: Box<BenchCommand>, allowed: &Cores) -> Result<BenchConfig, ValueError> {
    let BenchCommand { mut common, suite } = *raw;
    let measured_default = match suite {
        Some(SuiteFlags::Codec) => CODEC_SECONDS,
        Some(_) => SUITE_SECONDS,
        None => EVERYTHING_SECONDS,
    };
    let suites = suites(suite, &mut common, allowed)?;
    if common.hist.is_some() && !suites.iter().any(Suite::has_latencies) {
        return Err(ValueError::new("--hist: this suite records no latencies; drop it"));
    }
    let target = target(&common, &suites)?;
    Ok(BenchConfig {
        suites,
        target,
        length: RunLength {
            warmup: common.warmup.unwrap_or(WARMUP),
            measured: common.seconds.unwrap_or(measured_default),
            repeat: common.repeat.unwrap_or(REPEAT),
        },
        placement: placement::resolve(&common, allowed)?,
        backend: common.backend,
        spin: common.spin,
        client_spin: common.client_spin.or(common.spin),
        peers: common.peers,
        format: common.format,
        report: common.report,
        histogram: common.hist,
        is_wide: common.wide,
    })
}

/// Resolves the flags of the suite that is named, or makes all suites.
fn suites(
    suite: Option<SuiteFlags>,
    common: &mut BenchFlags,
    allowed: &Cores,
) -> Result<Vec<Suite>, ValueError> {
    Ok(match suite {
        None => everything(common)?,
        Some(SuiteFlags::Pingpong { threads, block_size, sessions, time }) => {
            merge("threads (-i)", &mut common.threads, threads)?;
            merge("time (-d)", &mut common.seconds, time)?;
            merge_list("block size (-s)", &mut common.size, block_size)?;
            merge_list("sessions (-c)", &mut common.connections, sessions)?;
            vec![ping_pong(common)?]
        }
        Some(SuiteFlags::Idle) => vec![idle(common)?],
        Some(SuiteFlags::Receive { batch, per_packet }) => {
            vec![receive(common, batch, per_packet)?]
        }
        Some(SuiteFlags::Ttcp { length }) => {
            merge_list("length (-s)", &mut common.size, length)?;
            vec![ttcp(common)?]
        }
        Some(SuiteFlags::Roundtrip { pause }) => {
            vec![roundtrip(common, pause.unwrap_or_default())?]
        }
        Some(SuiteFlags::Rpc { load, spoken }) => {
            vec![rpc::resolve(common, &load, rpc::protocols(spoken.protocol))?]
        }
        Some(SuiteFlags::Grpc(load)) => vec![rpc::resolve(common, &load, vec![Protocol::Grpc])?],
        Some(SuiteFlags::Jsonrpc(load)) => {
            vec![rpc::resolve(common, &load, vec![Protocol::Jsonrpc])?]
        }
        Some(SuiteFlags::Stream(flags)) => vec![stream::resolve(common, flags)?],
        Some(SuiteFlags::Call(flags)) => vec![call::resolve(common, flags)?],
        Some(SuiteFlags::Registry(flags)) => {
            vec![registry::resolve(common, flags, allowed)?]
        }
        Some(SuiteFlags::Mongo(flags)) => {
            let (loads, job) = mongo::resolve(common, flags)?;
            let connections = list("-c", &common.connections, &[10, 100])?;
            vec![Suite::Mongo { connections, loads, job }]
        }
        Some(SuiteFlags::Event(flags)) => vec![event::resolve(common, &flags)?],
        Some(SuiteFlags::Codec) => {
            codec::check(common)?;
            vec![Suite::Codec]
        }
    })
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
    let frames = |window| StreamLoad::Echo { frames: stream::FRAMES, window };
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

/// One suite has time for steadier figures; all suites together take less than 90 seconds.
const SUITE_SECONDS: Duration = Duration::from_secs(2);
const EVERYTHING_SECONDS: Duration = Duration::from_millis(500);
/// Half a million operations; there are many rows.
const CODEC_SECONDS: Duration = Duration::from_millis(100);
const WARMUP: Duration = Duration::from_millis(200);
/// The least number that shows a spread.
const REPEAT: u32 = 5;

#[cfg(test)]
mod tests {
    use super::super::{Config, tests::parse_words};
    use super::*;

    pub(super) fn config(words: &str) -> BenchConfig {
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
    fn only_suites_with_latencies_have_histograms() {
        for words in
            ["bench", "bench pingpong", "bench event", "bench stream", "bench rpc --rate 5"]
        {
            let file = config(&format!("{words} --hist a/b.hgrm")).histogram;
            assert_eq!(file, Some(PathBuf::from("a/b.hgrm")), "{words}");
        }
        for words in ["idle", "receive", "stream --one-way", "registry --local", "codec"] {
            parse_words(&format!("bench {words} --hist a")).expect_err(words);
        }
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
}
