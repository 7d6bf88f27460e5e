//! The flags of `bench` as written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::mongo_flags::BenchMongoFlags;
use crate::args::access_flags::AccessFlags;
use crate::args::choices::{Backend, Format, Protocol, RegistryMode, RpcMode, Transport};
use crate::args::examples;
use crate::args::values::{self, Cores, Uri};
use crate::limits;

#[derive(Debug, Args)]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    pub(crate) common: BenchFlags,
    #[command(subcommand)]
    pub(crate) suite: Option<SuiteFlags>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SuiteFlags {
    /// Each connection sends a message, waits for its echo, checks it, sends the next.
    #[command(after_help = examples::PINGPONG)]
    Pingpong {
        /// Same as -i
        // Its own id, or it would be taken for the flag of that name.
        #[arg(id = "threads_by_position", value_name = "THREADS")]
        threads: Option<u16>,
        /// Same as -s
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MESSAGE_BYTES_MAX)))]
        block_size: Option<u32>,
        /// Same as -c
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CONNECTIONS_MAX)))]
        sessions: Option<u32>,
        /// Same as -d, in seconds
        #[arg(value_parser = values::parse_seconds)]
        time: Option<Duration>,
    },
    /// Connections exchange one message each and then do nothing: what an idle one costs the server.
    #[command(after_help = examples::IDLE)]
    Idle,
    /// Connections send packets one way; the server counts those it has framed and checked.
    #[command(after_help = examples::RECEIVE)]
    Receive {
        /// Many packets per write, N if given [default mode, with 2048, beside --per-packet]
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2048",
              value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::BATCH_PACKETS_MAX)))]
        batch: Option<u32>,
        /// One send call per packet [default mode, beside --batch]
        #[arg(long)]
        per_packet: bool,
    },
    /// Bulk transfer one way: each message is checked and acknowledged before the next is sent.
    #[command(after_help = examples::TTCP)]
    Ttcp {
        /// Same as -s
        #[arg(short = 'l', long = "length", value_name = "BYTES")]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MESSAGE_BYTES_MAX)))]
        length: Option<u32>,
    },
    /// Each connection exchanges clocks: round trips, and how far the server's clock is off.
    #[command(after_help = examples::ROUNDTRIP)]
    Roundtrip {
        /// Wait this long after each answer, e.g. 200ms [default: send the next at once]
        #[arg(long, value_name = "SPAN", value_parser = values::parse_pause)]
        pause: Option<Duration>,
    },
    /// Each connection keeps some calls in flight; every reply is compared.
    #[command(after_help = examples::RPC)]
    Rpc {
        #[command(flatten)]
        load: RpcFlags,
        #[command(flatten)]
        spoken: ProtocolFlags,
    },
    /// Like rpc, over gRPC.
    #[command(after_help = examples::GRPC)]
    Grpc(RpcFlags),
    /// Like rpc, over JSON-RPC: a line for each message, and its payload in base64.
    #[command(after_help = examples::JSONRPC)]
    Jsonrpc(RpcFlags),
    /// Each connection runs one stream after the other; every frame is compared.
    #[command(after_help = examples::STREAM)]
    Stream(StreamFlags),
    /// Each connection reads, writes, keeps alive or watches as servers and clients of a registry do.
    #[command(after_help = examples::BENCH_REGISTRY)]
    Registry(BenchRegistryFlags),
    /// Tasks run operations of our MongoDB client; every answer is compared.
    #[command(after_help = examples::BENCH_MONGO)]
    Mongo(BenchMongoFlags),
    /// Put load on any method of a running server.
    #[command(after_help = examples::BENCH_CALL)]
    Call(BenchCallFlags),
    /// Pipes on one core: those that are active pass a byte on, and every byte is checked.
    #[command(after_help = examples::EVENT)]
    Event(EventFlags),
    /// Decode and encode JSON-RPC messages in memory, beside serde_json.
    #[command(after_help = examples::CODEC)]
    Codec,
}

#[derive(Debug, Args)]
pub(crate) struct RpcFlags {
    /// Calls in flight on each connection, one row per value [default: 1]
    #[arg(short = 'l', long = "depth", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::DEPTH_MAX)))]
    pub(crate) depth: Vec<u32>,
    /// Kinds of calls, one row per value; a stream carries one message each way [default: unary]
    #[arg(short = 'm', long = "mode", value_name = "LIST", value_enum, value_delimiter = ',')]
    pub(crate) mode: Vec<RpcMode>,
    /// Start this many calls per second, e.g. 20k, regardless of the server, and measure latency from
    /// the time at which each was due; of several rates, in rising order, those above the first that
    /// the server does not keep up with are skipped [default: start the next call when a reply arrives]
    #[arg(long, value_name = "LIST", value_parser = values::parse_rate, value_delimiter = ',')]
    pub(crate) rate: Vec<u64>,
    /// With --rate: this share of the calls, in percent, has a handler that sleeps 5 ms; their
    /// latencies are left out
    #[arg(long, value_name = "PERCENT", requires = "rate")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) slow: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct StreamFlags {
    /// Frames of a stream, each sent and echoed, one row per value [default: 16]
    #[arg(short = 'f', long = "frames", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::FRAMES_MAX)))]
    pub(crate) frames: Vec<u32>,
    /// Unanswered frames of a stream, one row per value, at most -f [default: 1]
    #[arg(short = 'w', long = "window", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::FRAMES_MAX)))]
    pub(crate) window: Vec<u32>,
    /// One endless stream per connection, from the server to the client; -f and -w do not apply
    #[arg(long, conflicts_with_all = ["frames", "window"])]
    pub(crate) one_way: bool,
    #[command(flatten)]
    pub(crate) spoken: ProtocolFlags,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRegistryFlags {
    /// What connections do, one row per value: read the ten endpoints of a service, put a key and wait until it
    /// is on the disk, keep a lease alive, or watch a key, which is changed when all have seen the last
    /// change [default: range,put,keep-alive,watch]
    #[arg(short = 'm', long = "mode", value_name = "LIST", value_enum, value_delimiter = ',')]
    pub(crate) mode: Vec<RegistryMode>,
    /// Ranges or puts in flight on each connection [default: 1]
    #[arg(short = 'l', long = "depth", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::DEPTH_MAX)))]
    pub(crate) depth: Option<u32>,
    /// Measure the registry inside one process instead: workers register, look up and deregister
    #[arg(long, conflicts_with_all = ["mode", "depth"])]
    pub(crate) local: bool,
    /// The workers of --local, which it implies, on all cores or as many as -i [default: 100]
    #[arg(short = 'w', long, value_name = "N", conflicts_with_all = ["mode", "depth"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) workers: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct EventFlags {
    /// Pipes, one row per value [default: 100]
    #[arg(short = 'n', long = "pipes", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PIPES_MAX)))]
    pub(crate) pipes: Vec<u32>,
    /// Pipes that get a byte at the beginning of an iteration, one row per value, at most -n [default: 1]
    #[arg(short = 'a', long = "active", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PIPES_MAX)))]
    pub(crate) active: Vec<u32>,
    /// How often a byte is passed on in an iteration, in all, one row per value [default: as -n]
    #[arg(short = 'w', long = "writes", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(limits::PIPE_WRITES_MAX)))]
    pub(crate) writes: Vec<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ProtocolFlags {
    /// Protocol, one row per value [default: native]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub(crate) protocol: Vec<Protocol>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchCallFlags {
    /// Address of the server: tcp://, unix:// or tls://; grpc:// or grpcs:// for any gRPC server
    #[arg(value_name = "URI")]
    pub(crate) uri: Uri,
    /// Method to call, such as market.v1.Market/Quote; the server must offer reflection, as ours do
    #[arg(value_name = "SERVICE/METHOD")]
    pub(crate) method: String,
    /// The request: JSON, or plain text for a method that takes bytes or a string; - reads standard
    /// input. A stream of requests has this one message
    #[arg(value_name = "MESSAGE", default_value = "", allow_negative_numbers = true)]
    pub(crate) message: String,
    /// Expected reply, as `ringway call` prints it; any other reply is an error [default: replies are
    /// not compared]
    #[arg(long, value_name = "REPLY", allow_hyphen_values = true)]
    pub(crate) expect: Option<String>,
    /// Calls in flight on each connection, one row per value [default: 1]
    #[arg(
        short = 'p',
        short_alias = 'l',
        long = "depth",
        value_name = "LIST",
        value_delimiter = ','
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::DEPTH_MAX)))]
    pub(crate) depth: Vec<u32>,
    /// Start this many calls per second, e.g. 20k, regardless of the server, and measure latency from
    /// the time at which each was due; of several rates, in rising order, those above the first that
    /// the server does not keep up with are skipped [default: start the next call when a reply arrives]
    #[arg(long, value_name = "LIST", value_parser = values::parse_rate, value_delimiter = ',',
          conflicts_with = "depth")]
    pub(crate) rate: Vec<u64>,
    /// Send the request as raw bytes
    #[arg(long)]
    pub(crate) binary: bool,
    #[command(flatten)]
    pub(crate) access: AccessFlags,
}

#[derive(Debug, Args)]
pub(crate) struct BenchFlags {
    /// Connections, one row per value [default: 1,10,100,1000; receive 1,100,1000,10000; rpc,
    /// stream and call 100]
    #[arg(
        short = 'c',
        long,
        alias = "concurrency",
        value_name = "LIST",
        value_delimiter = ',',
        global = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CONNECTIONS_MAX)))]
    pub(crate) connections: Vec<u32>,
    /// Payload bytes one way, one row per value [default: 16384; receive 32; rpc 256; stream 128]
    #[arg(
        short = 's',
        long,
        alias = "packet-size",
        value_name = "LIST",
        value_delimiter = ',',
        global = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MESSAGE_BYTES_MAX)))]
    pub(crate) size: Vec<u32>,
    /// Measured seconds per run, warm-up excluded [default: 2; without a suite 0.5]
    #[arg(short = 'd', long, value_name = "SECONDS", value_parser = values::parse_seconds, global = true)]
    pub(crate) seconds: Option<Duration>,
    /// I/O threads of each side, a core each; 0 takes half of the allowed cores for each
    #[arg(short = 'i', long, value_name = "N", global = true)]
    pub(crate) threads: Option<u16>,
    /// Measure a running server, e.g. tcp://127.0.0.1:7001 [default: start one]; it must offer
    /// what the suite needs: `ringway serve echo`, `serve discard --frame`, or for rpc and stream
    /// ringway.bench.Echo, as `ringway serve rpc` does
    #[arg(long, value_name = "URI", global = true)]
    pub(crate) addr: Option<Uri>,
    /// Warm-up seconds before each run, not counted [default: 0.2]
    #[arg(long, value_name = "SECONDS", value_parser = values::parse_seconds_or_zero, global = true)]
    pub(crate) warmup: Option<Duration>,
    /// Runs per row; the table shows their median and spread [default: 5]
    #[arg(long, value_name = "N", global = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::REPEAT_MAX)))]
    pub(crate) repeat: Option<u32>,
    /// Poll this long before sleeping, both sides, e.g. 50us; 0 sleeps at once [default: adaptive]
    #[arg(long, value_name = "SPAN", value_parser = values::parse_spin, global = true)]
    pub(crate) spin: Option<Duration>,
    /// The same for the client only [default: as --spin]
    #[arg(long, value_name = "SPAN", value_parser = values::parse_spin, global = true)]
    pub(crate) client_spin: Option<Duration>,
    /// Cores of the server [default: the first of the allowed ones]
    #[arg(long, value_name = "LIST", global = true)]
    pub(crate) server_cores: Option<Cores>,
    /// Cores of the client [default: those after the server's]
    #[arg(long, value_name = "LIST", global = true)]
    pub(crate) client_cores: Option<Cores>,
    /// Kernel interface, both sides
    #[arg(long, value_enum, default_value_t = Backend::Auto, global = true)]
    pub(crate) backend: Backend,
    /// Also build and run the peer programs, in the same table
    #[arg(long, global = true)]
    pub(crate) peers: bool,
    /// Transport, one row per value [default: tcp]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', global = true)]
    pub(crate) transport: Vec<Transport>,
    /// Short for --transport unix
    #[arg(long, global = true)]
    pub(crate) unix: bool,
    /// Print all columns of a table side by side, whatever the width [default: blocks that fit the
    /// terminal, or 100 characters]
    #[arg(long, global = true)]
    pub(crate) wide: bool,
    /// Also write one HTML page with charts: bars, latencies, rates over time, and the JSON that
    /// `ringway report` reads
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) report: Option<PathBuf>,
    /// Also write the latencies as percentiles, in the text form of HdrHistogram that its plotters read;
    /// several rows get a file each, named after what tells them apart
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) hist: Option<PathBuf>,
    /// Format of the result on standard output
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub(crate) format: Format,
}
