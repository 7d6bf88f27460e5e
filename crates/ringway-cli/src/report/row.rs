//! One row of a report: one workload at one setting.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::clock::ClockReading;
use crate::histogram::{Latencies, Percentiles};
use crate::repeats::Spread;

/// The results of one workload at one setting, over all its runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The suite's name as on the command line, e.g. `pingpong`.
    pub(crate) suite: &'static str,
    /// Parameters that distinguish the rows of a suite, in the order of the columns: `server`, `connections`, …
    pub(crate) parameters: Map<String, Value>,
    /// Operations per second; the median is the row's rate.
    pub(crate) rate: Spread,
    /// The number of runs in `rate`.
    pub(crate) repeat: u32,
    /// The data of charts.
    pub(crate) detail: Detail,
    /// The unit of the rate, e.g. `messages/s`.
    pub(crate) unit: &'static str,
    /// Present only in open loops.
    pub(crate) open_loop: Option<OpenLoop>,
    /// Payload in one direction without the transport's headers, in 2^20 bytes per second.
    pub(crate) goodput_mib_s: Option<f64>,
    /// Latencies of all runs together, successes only.
    pub(crate) latency: Percentiles,
    pub(crate) errors: Errors,
    /// Payloads compared byte by byte in all runs.
    pub(crate) verified: u64,
    pub(crate) server: Cost,
    pub(crate) client: Cost,
    /// This row compared with the plain epoll server's; only with peers.
    pub(crate) versus_epoll: Versus,
    /// Warnings to read before the row is quoted.
    pub(crate) warnings: Vec<String>,
    /// How far the server's clock is before the client's, by the fastest exchange of all runs.
    pub(crate) clock: Option<ClockReading>,
}

/// What few rows have, or only charts and files.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Detail {
    /// The rate of each run, in order.
    pub(crate) rates: Vec<f64>,
    /// Quantiles from 0 to almost 1, each with its latency in microseconds, of all runs together; empty where
    /// there are no samples.
    pub(crate) curve: Vec<(f64, f64)>,
    /// The latencies of all runs together, where they are our own.
    pub(crate) samples: Option<Arc<Latencies>>,
    /// Bytes of the server's memory for each idle connection.
    pub(crate) memory: Option<f64>,
    /// The rate in equal steps of the measured interval, run by run; empty if unknown.
    pub(crate) timeline: Vec<f64>,
}

/// How well an open loop has kept its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct OpenLoop {
    /// Requested operations per second.
    pub(crate) due: f64,
    /// Operations per second that were begun, answered or not; the median of the runs.
    pub(crate) begun: f64,
    /// The row's rate as a share of `due`.
    pub(crate) achieved: f64,
}

/// Medians of the ratios of paired runs: the runs of a setting alternate, so each has a partner of the same
/// phase of the machine. A ratio is `None` without such a partner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Versus {
    /// The rate divided by that of the epoll server with the same client.
    pub(crate) rate: Option<f64>,
    /// Server CPU per operation divided by that of the epoll server with the same client.
    pub(crate) server_cpu: Option<f64>,
    /// The rate divided by that of the epoll server and client.
    pub(crate) rate_both_sides: Option<f64>,
}

/// Costs of one operation on one side; each is `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// User and system time, in microseconds.
    pub(crate) cpu_us_per_op: Option<f64>,
    pub(crate) syscalls_per_op: Option<f64>,
    pub(crate) allocations_per_op: Option<f64>,
}

/// Failed operations by kind in all runs. They are not among the latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Errors {
    /// Connections that were not accepted.
    pub(crate) refused: u64,
    /// Connections that broke.
    pub(crate) reset: u64,
    pub(crate) timed_out: u64,
    /// Payloads with a wrong byte.
    pub(crate) mismatched: u64,
    /// Operations still in flight when the time of the drain was over.
    pub(crate) unanswered: u64,
    /// Errors of no other kind.
    pub(crate) other: u64,
    /// Counts by status, for calls that ended with one.
    #[serde(skip)]
    pub(crate) by_status: BTreeMap<&'static str, u64>,
}

/// The suite whose operations are events of one core.
const EVENT: &str = "event";

impl Row {
    /// The key of a table: rows of one suite with one unit share it.
    pub(super) fn table(&self) -> (&'static str, &'static str) {
        (self.suite, self.unit)
    }

    /// How long an operation takes when one thread does nothing else.
    pub(super) fn nanoseconds(&self) -> Option<f64> {
        self.has_one_thread().then(|| 1e9 / self.rate.median)
    }

    /// How long an iteration of the event suite takes on average.
    pub(super) fn iteration_us(&self) -> Option<f64> {
        let events = |name: &str| self.parameters.get(name).and_then(Value::as_f64);
        let all = (self.suite == EVENT).then(|| Some(events("active")? + events("writes")?))??;
        Some(all * 1e6 / self.rate.median)
    }

    /// Allocations of the measured side, which is the client of MongoDB.
    pub(super) fn allocations(&self) -> Option<f64> {
        let side = if self.suite == "mongo" { &self.client } else { self.measured_side() };
        side.allocations_per_op
    }

    /// What the measured side has cost: the server, or the only one.
    pub(super) fn measured_side(&self) -> &Cost {
        if self.has_one_thread() { &self.client } else { &self.server }
    }

    /// Whether one thread does all, so that the inverse of its rate is the time of an operation.
    fn has_one_thread(&self) -> bool {
        matches!(self.suite, "codec" | EVENT)
    }
}

impl Errors {
    /// Failed operations of all kinds.
    pub(crate) fn total(&self) -> u64 {
        let Self { refused, reset, timed_out, mismatched, unanswered, other, by_status: _ } = self;
        refused + reset + timed_out + mismatched + unanswered + other
    }

    /// Adds the failures of another thread or run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.mismatched += other.mismatched;
        self.unanswered += other.unanswered;
        self.other += other.other;
        for (status, count) in &other.by_status {
            *self.by_status.entry(status).or_default() += count;
        }
    }

    /// Returns the kinds that occurred, with their numbers. A call that ended with a status has the kind of its name.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let told: u64 = self.by_status.values().sum();
        // What is told by its status is one of these three as well; the rest are connections that were not made.
        let [reset, timed_out, other] = match told {
            0 => [self.reset, self.timed_out, self.other],
            _ => [0, 0, (self.reset + self.timed_out + self.other).saturating_sub(told)],
        };
        let kinds = [
            ("refused", self.refused),
            ("reset", reset),
            ("timed out", timed_out),
            ("mismatched", self.mismatched),
            ("unanswered", self.unanswered),
            ("other", other),
        ];
        let by_status = self.by_status.iter().map(|(status, count)| (*status, *count));
        kinds.into_iter().filter(|(_, count)| *count > 0).chain(by_status)
    }
}

impl Cost {
    /// Divides the three totals, if known, by `operations`.
    pub(crate) fn per_operation(
        operations: u64,
        cpu: Option<std::time::Duration>,
        syscalls: Option<u64>,
        allocations: Option<u64>,
    ) -> Self {
        let per_op = |total: f64| (operations > 0).then(|| total / operations as f64);
        Self {
            cpu_us_per_op: cpu.and_then(|cpu| per_op(cpu.as_secs_f64() * 1e6)),
            syscalls_per_op: syscalls.and_then(|count| per_op(count as f64)),
            allocations_per_op: allocations.and_then(|count| per_op(count as f64)),
        }
    }
}

/// The names that rows of every suite share; programs that read the JSON rely on them.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Row", 32)?;
        out.serialize_field("suite", self.suite)?;
        out.serialize_field("parameters", &self.parameters)?;
        out.serialize_field("rate", &self.rate.median)?;
        out.serialize_field("unit", self.unit)?;
        out.serialize_field("rate_min", &self.rate.min)?;
        out.serialize_field("rate_max", &self.rate.max)?;
        out.serialize_field("rate_cv", &self.rate.cv)?;
        out.serialize_field("repeat", &self.repeat)?;
        out.serialize_field("rates", &self.detail.rates)?;
        out.serialize_field("open_loop", &self.open_loop)?;
        out.serialize_field("goodput_mib_s", &self.goodput_mib_s)?;
        out.serialize_field("mean_us", &self.latency.mean_us)?;
        out.serialize_field("p50_us", &self.latency.p50_us)?;
        out.serialize_field("p90_us", &self.latency.p90_us)?;
        out.serialize_field("p95_us", &self.latency.p95_us)?;
        out.serialize_field("p99_us", &self.latency.p99_us)?;
        out.serialize_field("p999_us", &self.latency.p999_us)?;
        out.serialize_field("max_us", &self.latency.max_us)?;
        out.serialize_field("latency_us_by_quantile", &self.detail.curve)?;
        out.serialize_field("rate_over_time", &self.detail.timeline)?;
        out.serialize_field("errors", &self.errors.total())?;
        out.serialize_field("errors_by_kind", &self.errors)?;
        match self.nanoseconds() {
            Some(nanoseconds) => out.serialize_field("ns_per_op", &nanoseconds)?,
            None => out.skip_field("ns_per_op")?,
        }
        match self.iteration_us() {
            Some(iteration) => out.serialize_field("us_per_iteration", &iteration)?,
            None => out.skip_field("us_per_iteration")?,
        }
        match self.detail.memory {
            Some(bytes) => out.serialize_field("server_bytes_per_connection", &bytes)?,
            None => out.skip_field("server_bytes_per_connection")?,
        }
        match &self.clock {
            Some(clock) => out.serialize_field("clock", clock)?,
            None => out.skip_field("clock")?,
        }
        match self.suite {
            "call" => out.serialize_field("errors_by_status", &self.errors.by_status)?,
            // The statuses of the other suites' service mean nothing.
            _ => out.skip_field("errors_by_status")?,
        }
        out.serialize_field("verified", &self.verified)?;
        out.serialize_field("server", &self.server)?;
        out.serialize_field("client", &self.client)?;
        out.serialize_field("versus_epoll", &self.versus_epoll)?;
        out.serialize_field("warnings", &self.warnings)?;
        out.end()
    }
}
