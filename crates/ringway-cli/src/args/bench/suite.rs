//! The suites with all settings of their rows.

use std::fmt;
use std::time::Duration;

use crate::args::call::Access;
use crate::args::choices::{MongoOp, Protocol, RegistryMode, RpcMode};
use crate::args::values::Cores;

/// One suite with the lists whose product is its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Suite {
    PingPong {
        connections: Vec<u32>,
        sizes: Vec<u32>,
    },
    /// Connections that do nothing.
    Idle {
        connections: Vec<u32>,
        sizes: Vec<u32>,
    },
    Receive {
        connections: Vec<u32>,
        sizes: Vec<u32>,
        modes: Vec<SendMode>,
    },
    Ttcp {
        connections: Vec<u32>,
        sizes: Vec<u32>,
    },
    Roundtrip {
        connections: Vec<u32>,
        /// The time after each answer.
        pause: Duration,
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
    /// Pipes on one core.
    Event(Vec<EventLoad>),
    Codec,
}

/// How the receive suite's client hands packets to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// This many packets in one write.
    Batch(u32),
    /// One send call for each.
    PerPacket,
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

/// The workload of each connection of the rpc suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RpcLoad {
    pub(crate) mode: RpcMode,
    pub(crate) pace: Pace,
}

/// When a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// When another has ended: this many are in flight on each connection.
    Closed { depth: u32 },
    /// When it is due: this many per second on all connections. A share of them, in percent, is slow.
    Open { rate: u64, slow_percent: u32 },
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

/// The workload of each connection of the stream suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamLoad {
    /// Streams of this many frames, each echoed, with a window of unanswered ones.
    Echo { frames: u32, window: u32 },
    /// One endless stream from the server.
    OneWay,
}

/// The workload of each connection of the registry suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegistryLoad {
    pub(crate) mode: RegistryMode,
    /// Requests in flight on each connection.
    pub(crate) depth: u32,
}

/// What the tasks of a row do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MongoLoad {
    pub(crate) op: MongoOp,
    pub(crate) send: MongoSend,
}

/// How operations follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MongoSend {
    /// One after the other, each awaited by a task.
    Tasks,
    /// One after the other, for each of which a thread blocks.
    Threads,
    /// So many at a time by each task, which waits for all of them.
    Fans(u32),
    /// So many commands together.
    Pipelines(u32),
}

impl MongoLoad {
    /// Operations that are under way together, of each task or thread.
    pub(crate) fn depth(self) -> u32 {
        match self.send {
            MongoSend::Fans(count) | MongoSend::Pipelines(count) => count,
            MongoSend::Tasks | MongoSend::Threads => 1,
        }
    }
}

/// The server of the mongo suite, and what holds for all of its rows.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct MongoJob {
    /// The connection string of a running server; `None` for a responder of our own.
    pub(crate) uri: Option<String>,
    /// The time after which the responder answers.
    pub(crate) delay: Duration,
    /// The database of the documents, if it is not that of the bench.
    pub(crate) database: Option<String>,
    /// How long an operation may take; as long as the client lets it if `None`.
    pub(crate) timeout: Option<Duration>,
    /// After how many operations a run ends, if its time is not over before.
    pub(crate) total: Option<u64>,
}

/// The connection string may contain a password.
impl fmt::Debug for MongoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoJob").field("delay", &self.delay).finish_non_exhaustive()
    }
}

/// The pipes of a row, and what happens on them in one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventLoad {
    pub(crate) pipes: u32,
    /// The pipes that get a byte at the beginning, at the most all of them.
    pub(crate) active: u32,
    /// The times that a byte is passed on, in all.
    pub(crate) writes: u32,
}

impl EventLoad {
    /// The bytes that one iteration writes and reads.
    pub(crate) fn events(self) -> u64 {
        u64::from(self.active) + u64::from(self.writes)
    }
}

impl Suite {
    /// Whether any of its rows has latencies.
    pub(super) fn has_latencies(&self) -> bool {
        match self {
            Self::Idle { .. } | Self::Receive { .. } | Self::Local { .. } | Self::Codec => false,
            Self::Stream { loads, .. } => !loads.contains(&StreamLoad::OneWay),
            _ => true,
        }
    }

    /// The protocols that its rows compare; none if there is no choice.
    pub(crate) fn protocols(&self) -> &[Protocol] {
        match self {
            Self::Rpc { protocols, .. } | Self::Stream { protocols, .. } => protocols,
            Self::Registry { .. } => &[Protocol::Grpc],
            Self::PingPong { .. }
            | Self::Idle { .. }
            | Self::Receive { .. }
            | Self::Ttcp { .. }
            | Self::Roundtrip { .. }
            | Self::Call { .. }
            | Self::Local { .. }
            | Self::Mongo { .. }
            | Self::Event(_)
            | Self::Codec => &[],
        }
    }
}
