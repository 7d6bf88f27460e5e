//! Every bound of the tool, with its reason.

use std::time::Duration;

/// Core numbers stay below this: the size of the kernel's affinity mask as libc fixes it.
pub(crate) const CORES_MAX: usize = 1024;

/// A core may poll this long before it sleeps; the runtime spins no longer, whatever it is told.
pub(crate) const SPIN_MAX: Duration = Duration::from_millis(10);

/// The longest measured interval or warm-up of one run: an hour shows any drift.
pub(crate) const MEASURED_MAX: Duration = Duration::from_secs(3600);

/// The shortest time between two lines of statistics: nobody reads more, and less would keep a core busy.
pub(crate) const PRINTED_EVERY_MIN: Duration = Duration::from_millis(10);

/// Runs of one row: the spread of a hundred is known well enough.
pub(crate) const REPEAT_MAX: u32 = 100;

/// Connections of one row; what a client of one address can open to two or three server ports, and the
/// range of connection numbers a received packet is checked against.
pub(crate) const CONNECTIONS_MAX: u32 = 1 << 20;

/// Bytes of one message: larger ones measure memory, not the path.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 16 << 20;

/// Bytes of a reply to `ringway call`, descriptors of services among them: a person has asked for it, and
/// the largest sets of `.proto` files are some 10 MiB. A server that never ends a message makes the tool
/// hold as much.
pub(crate) const REPLY_BYTES_MAX: u32 = 32 << 20;

/// Packets of one `--batch` write.
pub(crate) const BATCH_PACKETS_MAX: u32 = 1 << 16;

/// Calls in flight on one connection: a hundred times what the server announces as its limit.
pub(crate) const DEPTH_MAX: u32 = 1 << 17;

/// Calls of an open loop begin together that are due within this: each is late by half of it on average,
/// which counts as its latency. Shorter ones make a turn of the core, and a send, for each call.
pub(crate) const OPEN_TICK: Duration = Duration::from_micros(20);

/// Calls of an open loop that may be under way on one core, beside those that are meant to be slow; further
/// ones wait, which counts as their latency. A client that has fallen behind with more than a second-level
/// cache holds is slowed down by itself, and never catches up.
pub(crate) const OPEN_LANES: usize = 2048;

/// Calls a second of an open loop: far more than a machine can do, so that a typing error is found.
pub(crate) const RATE_MAX: u64 = 100_000_000;

/// Frames of one stream of the stream suite.
pub(crate) const FRAMES_MAX: u32 = 1 << 20;

/// Pipes of the event suite; each has two descriptors, and the kernel gives a process a million.
pub(crate) const PIPES_MAX: u32 = 1 << 18;

/// Bytes that one iteration of the event suite passes on: a second of the fastest loop.
pub(crate) const PIPE_WRITES_MAX: u32 = 1 << 24;

/// An iteration of the event suite is over within this, or a byte is lost.
pub(crate) const ITERATION_MAX: Duration = Duration::from_secs(60);

/// An exchange of the roundtrip suite that has no answer within this is lost; less than a drain, so that it is counted
/// as what it is.
pub(crate) const EXCHANGE_MAX: Duration = Duration::from_secs(1);

/// The pause of the roundtrip suite: with the last exchange less than a drain.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Values in one list flag: the rows of a suite are its product.
pub(crate) const LIST_VALUES_MAX: usize = 64;

/// A server prints its `listening on` line within this, even when the machine is busy compiling.
pub(crate) const SERVER_READY_MAX: Duration = Duration::from_secs(20);

/// A server answers `snapshot` within this: the request waits at most for one stalled turn.
pub(crate) const SNAPSHOT_MAX: Duration = Duration::from_secs(5);

/// A server drains within this after SIGTERM, then it is killed.
pub(crate) const SERVER_STOP_MAX: Duration = Duration::from_secs(10);

/// A peer's client may take this much longer than the time it was given to warm up and measure.
pub(crate) const PEER_CLIENT_SLACK: Duration = Duration::from_secs(60);

/// Lines a child may have printed that nobody has read yet; it then blocks on its output.
pub(crate) const CHILD_LINES_MAX: usize = 64;

/// Bytes of one line from a child: a snapshot is about one kilobyte.
pub(crate) const CHILD_LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of one line on the control input: the longest request has nine.
pub(crate) const CONTROL_LINE_BYTES_MAX: usize = 256;

/// Latencies above this are recorded as this: no run waits longer for an answer.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A connection is up within this; beyond it the server is overwhelmed.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Connects under way at once: far below any accept queue, so that none is dropped and tried again a
/// second later.
pub(crate) const CONNECTS_AT_ONCE: u32 = 128;

/// Replies still missing this long after the end of a run are errors.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(5);

/// The server has framed what is under way on a connection, and said so, within this.
pub(crate) const TALLY_MAX: Duration = Duration::from_secs(20);

/// A run may take this much longer than its warm-up and its measured interval: connecting and draining.
pub(crate) const RUN_SLACK: Duration = Duration::from_secs(60);

/// Connections of the receive suite's warm-up: what warms up is code, caches and clocks, not connections.
pub(crate) const WARM_UP_CONNECTIONS: u32 = 64;

/// Connections of the receive suite that have queued bytes at a time: with batches of 64 KiB half a
/// megabyte, which stays in a second-level cache.
pub(crate) const SENDERS_AT_ONCE: u32 = 8;

/// Bytes that one connection queues packet by packet before it waits.
pub(crate) const PER_PACKET_TURN_BYTES: usize = 64 << 10;

/// Bytes of one batch: a larger one would measure memory, not the path.
pub(crate) const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Descriptors that a side needs beside its connections.
pub(crate) const DESCRIPTORS_SPARE: u64 = 64;

/// Bytes of one message that `call` reads: sixteen times what a server takes unless it is told otherwise.
/// One is in memory at a time.
pub(crate) const CALL_MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// A call of `bench call` that finds no server is followed by the next one after this: ten thousand a second on
/// a hundred connections show that it is gone.
pub(crate) const FAILED_CALL_PAUSE: Duration = Duration::from_millis(10);

/// Files and bytes of descriptors that are taken from a server: the largest public interfaces have some
/// thousand files of a few kilobytes.
pub(crate) const REFLECTION_FILES_MAX: usize = 8192;
pub(crate) const REFLECTION_BYTES_MAX: usize = 64 << 20;

/// Bytes of one command that the responder of `bench mongo` takes: the longest of the bench has some 12 KB.
pub(crate) const MONGO_COMMAND_BYTES_MAX: usize = 1 << 20;

/// Bytes of answers that the responder copies into its send queue; more are moved there.
pub(crate) const MONGO_COPIED_MAX: usize = 16 << 10;

/// Groups of answers of one connection that wait for their time: at 30 ms some two million a second.
pub(crate) const MONGO_DELAYED_MAX: usize = 1 << 16;

/// The share of the time that the responder may be busy in a row of `bench mongo`: above it, clients wait for the
/// responder, whatever they could do.
pub(crate) const MONGO_BUSY_MAX: f64 = 0.7;

/// How often the core of `bench mongo --sync` takes what the threads have done: seldom enough to cost nothing.
pub(crate) const MONGO_LOOK_PERIOD: Duration = Duration::from_millis(10);

/// Most commands of a pipeline of `bench mongo`: as many as a connection has under way.
pub(crate) const MONGO_BATCH_MAX: u32 = 1 << 10;

/// Default time limit of `call` for unary calls: a person has given up by then.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Steps in which the rate of a run is told as it goes on: of a run of two seconds a tenth each, which a chart of
/// a few hundred pixels can still show.
pub(crate) const TIMELINE_STEPS: u32 = 20;

/// Bytes of a report that `ringway report` reads: some thousand times those of a long one.
pub(crate) const REPORT_BYTES_MAX: u64 = 64 << 20;
