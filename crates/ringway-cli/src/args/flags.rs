//! The flags as written, before they are checked against each other and the machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::access_flags::AccessFlags;
use super::bench::BenchCommand;
use super::choices::{Backend, Format};
use super::examples;
use super::registry::RegistryFlags;
use super::values::{self, Cores, Uri};

/// Serve, call and benchmark with Ringway, a Rust stack for latency-critical services on Linux.
#[derive(Debug, Parser)]
#[command(name = "ringway", version, after_help = examples::RINGWAY, max_term_width = HELP_COLUMNS_MAX)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Longer lines are hard to read.
const HELP_COLUMNS_MAX: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a server.
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Call a method of a running server, or list its methods.
    #[command(after_help = examples::CALL)]
    Call(CallFlags),
    /// List, watch, add, remove and drain endpoints in a registry server or in etcd.
    #[command(after_help = examples::REGISTRY)]
    Registry(RegistryFlags),
    /// Run benchmarks: all suites, or one of them.
    #[command(after_help = examples::BENCH)]
    Bench(Box<BenchCommand>),
    /// Compare the results of two runs of `bench`, or draw those of one.
    #[command(after_help = examples::REPORT)]
    Report(ReportFlags),
    /// Become another program that ends with the process that started it.
    #[command(hide = true)]
    Tether {
        parent: i32,
        #[arg(long, value_parser = values::core_number)]
        core: Option<usize>,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(subcommand)]
    pub(super) kind: ServeKind,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServeKind {
    /// Echo everything.
    #[command(after_help = examples::SERVE_ECHO)]
    Echo(ServeFlags),
    /// Receive everything and send nothing.
    #[command(after_help = examples::SERVE_DISCARD)]
    Discard {
        #[command(flatten)]
        flags: ServeFlags,
        /// Split the bytes into length-prefixed packets, check each as `bench receive` writes them, and count
        #[arg(long)]
        frame: bool,
        /// Answer each packet with the number of those that were right, as `bench ttcp` needs it
        #[arg(long, requires = "frame")]
        acknowledge: bool,
    },
    /// Answer requests with the time: the other side of `bench roundtrip`
    #[command(after_help = examples::SERVE_CLOCK)]
    Clock(ServeFlags),
    /// Serve RPC: an echo service with all four kinds of methods.
    #[command(after_help = examples::SERVE_RPC)]
    Rpc(ServeFlags),
    /// Serve a registry for discovery with the API of etcd v3, in memory or with its data in a folder
    #[command(after_help = examples::SERVE_REGISTRY)]
    Registry {
        #[command(flatten)]
        flags: ServeFlags,
        /// Keep the keys in this folder, and answer a change when it is on the disk [default: in memory]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Where clients reach it, as `etcdctl member list` tells them, http://host:port; repeatable
        /// [default: where it listens]
        #[arg(long, value_name = "URL", value_delimiter = ',')]
        advertise_client_urls: Vec<String>,
    },
    /// Answer MongoDB clients with documents made up on the spot: the other side of `bench mongo`
    #[command(after_help = examples::SERVE_MONGO)]
    MongoResponder {
        #[command(flatten)]
        flags: ServeFlags,
        /// Answer each command after this time, e.g. 30ms, as over a long line [default: at once]
        #[arg(long, value_name = "SPAN", value_parser = values::parse_timeout)]
        delay: Option<Duration>,
    },
}

#[derive(Debug, Args)]
pub(super) struct ServeFlags {
    /// Address to listen on: tcp://, unix://, udp:// or tls://; repeatable; port 0 takes a free one
    /// [default: tcp://127.0.0.1:7001; rpc tcp://127.0.0.1:9000; registry tcp://127.0.0.1:2379;
    /// mongo-responder tcp://127.0.0.1:27017]
    #[arg(long, value_name = "URI")]
    pub(super) listen: Vec<Uri>,
    /// Cores to run on, one thread each: 0 or 0-1 or 0,2-3 [default: all allowed]
    #[arg(long, value_name = "LIST")]
    pub(super) cores: Option<Cores>,
    /// Kernel interface; auto takes io_uring where the kernel grants it
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub(super) backend: Backend,
    /// Poll this long before sleeping, e.g. 50us; 0 sleeps at once [default: adaptive]
    #[arg(long, value_name = "SPAN", value_parser = values::parse_spin)]
    pub(super) spin: Option<Duration>,
    /// Certificate chain for tls://, PEM
    #[arg(long, value_name = "FILE", requires = "key", alias = "tls-cert")]
    pub(super) cert: Option<PathBuf>,
    /// Private key for tls://, PEM
    #[arg(long, value_name = "FILE", requires = "cert", alias = "tls-key")]
    pub(super) key: Option<PathBuf>,
    /// Accept only TLS clients with a certificate of this authority, PEM
    #[arg(long, value_name = "FILE", requires = "cert", alias = "tls-client-ca")]
    pub(super) client_ca: Option<PathBuf>,
    /// Print open connections and rates this often, e.g. 1s, while there is something to tell
    #[arg(long, value_name = "SPAN", value_parser = values::parse_period)]
    pub(super) stats: Option<Duration>,
    /// Answer `snapshot` lines on standard input with counters; stop when it closes
    #[arg(long, hide = true)]
    pub(super) control: bool,
}

#[derive(Debug, Args)]
pub(super) struct CallFlags {
    /// Address of the server: tcp://, unix:// or tls://; grpc://, grpcs:// or grpc+unix:// for any
    /// gRPC server with reflection; jsonrpc+tcp://, jsonrpc+tls:// or jsonrpc+unix:// for any JSON-RPC
    /// server on lines, http:// or https:// for one by POST; etcd://host:port/service,
    /// dns://host:port or file:///path for one of several servers
    #[arg(value_name = "URI")]
    pub(super) addr: Uri,
    /// Method to call, such as ringway.bench.Echo/Say
    #[arg(value_name = "SERVICE/METHOD", required_unless_present = "list")]
    pub(super) method: Option<String>,
    /// The request: JSON, or plain text for a method that takes bytes or a string; - reads standard
    /// input. For a stream of requests, each line is a message and is sent as soon as it is read
    #[arg(value_name = "MESSAGE", default_value = "", allow_negative_numbers = true)]
    pub(super) message: String,
    /// List the services and their methods instead
    #[arg(long, conflicts_with_all = ["method"])]
    pub(super) list: bool,
    /// Send the request and print replies as raw bytes, without line ends; the whole input is one
    /// message
    #[arg(long, requires = "method")]
    pub(super) binary: bool,
    #[command(flatten)]
    pub(super) access: AccessFlags,
}

#[derive(Debug, Args)]
pub(super) struct ReportFlags {
    /// What `bench --format json` printed, or a page of `bench --report`; with a second file, what it
    /// is compared with
    #[arg(value_name = "FILE", num_args = 1..=2, required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Draw a page of its own from the one file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Form of the comparison on standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
}
