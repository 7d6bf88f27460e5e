//! Every bound of this crate, with its reason.

use std::time::Duration;

// Calls.

/// Metadata of a call, keys and values together: what the native protocol and most gRPC servers
/// accept by default.
pub(crate) const METADATA_BYTES_MAX: usize = 16 * 1024;

// Balancing.

/// Hosts that the default policy compares for a call: four find a slow host's alternatives far
/// more often than two (brpc PR 3367: p99 545 µs in place of 6,460), more would herd.
pub(crate) const HOSTS_SAMPLED: usize = 4;
/// How long a host that joins is given less than its share, so that cold caches warm up.
pub(crate) const HOST_RAMP: Duration = Duration::from_secs(10);
/// How fast a latency is forgotten: long enough to avoid a stalled host, short enough to try again.
pub(crate) const LATENCY_MEMORY: Duration = Duration::from_secs(10);
/// Points of a host of weight 1 on the ring: shares differ by about a tenth.
pub(crate) const RING_POINTS: usize = 100;
/// Heaviest weight on the ring, which bounds its memory.
pub(crate) const RING_WEIGHT_MAX: u32 = 100;

// Retries and hedges.

/// Longest wait before the first retry: about what a restarted connection takes.
pub(crate) const RETRY_DELAY_FIRST: Duration = Duration::from_millis(20);
/// Longest wait before any retry: callers are waiting.
pub(crate) const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Further attempts that a target is worth before its calls have earned more.
pub(crate) const RETRY_BUDGET: u32 = 10;
/// Calls after which a percentile of latency means something.
pub(crate) const HEDGE_CALLS_MIN: u32 = 100;
/// Calls after which the older half of them counts half.
pub(crate) const HEDGE_MEMORY: u32 = 2_000;

// Ejection of hosts.

/// First ejection: enough for a process to restart a listener.
pub(crate) const EJECTION_FIRST: Duration = Duration::from_millis(100);
/// Longest ejection: a host that is back should not stay idle for minutes.
pub(crate) const EJECTION_MAX: Duration = Duration::from_secs(30);
/// Share of the hosts that may be out of use: the others have to carry the load.
pub(crate) const EJECTED_PERCENT_MAX: usize = 30;
/// Calls without any answer, in a row, after which a host is ejected.
pub(crate) const SILENT_IN_A_ROW: u32 = 5;
/// Calls of the short memory of failures, for hosts that break down.
pub(crate) const FAILURES_SHORT: u32 = 20;
/// Share of failures in it that is too much.
pub(crate) const FAILURES_SHORT_SHARE: f64 = 0.6;
/// Calls of the long memory of failures, for hosts that are merely bad.
pub(crate) const FAILURES_LONG: u32 = 200;
/// Share of failures in it that is too much.
pub(crate) const FAILURES_LONG_SHARE: f64 = 0.2;

// The adaptive limit of concurrent calls.

/// Where it begins, before anything was seen.
pub(crate) const ADAPTIVE_START: u32 = 64;
/// It never refuses so few.
pub(crate) const ADAPTIVE_MIN: u32 = 4;
/// It never allows more: a core has no use for more handlers.
pub(crate) const ADAPTIVE_MAX: u32 = 65_536;
/// How much longer than twice the least latency is still good: noise.
pub(crate) const ADAPTIVE_SLACK: f64 = 0.3;
/// Longest window of measuring: the limit follows within a second.
pub(crate) const ADAPTIVE_WINDOW: Duration = Duration::from_millis(200);
/// Calls that end a window early.
pub(crate) const ADAPTIVE_CALLS_MAX: u32 = 2_000;
/// Calls below which a window says nothing.
pub(crate) const ADAPTIVE_CALLS_MIN: u32 = 40;
/// How often the limit is lowered for one window to see the least latency again.
pub(crate) const ADAPTIVE_REMEASURE: Duration = Duration::from_secs(50);

// Metrics.

/// Sheets of one side, each of one core and method: more names than any program has methods, and
/// about 10 MiB at most.
pub(crate) const METRIC_SHEETS_MAX: usize = 1_024;
