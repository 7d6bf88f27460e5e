//! Every bound of this crate, with its reason.

use std::time::Duration;

// Calls.

/// Contexts of calls that are over whose memory a core keeps, of about 200 bytes each: calls that
/// wait end and begin in bursts.
pub(crate) const SPARE_CONTEXTS_MAX: usize = 1_024;

/// Metadata of a call, keys and values together: what the native protocol and most gRPC servers
/// accept by default.
pub(crate) const METADATA_BYTES_MAX: usize = 16 * 1024;

/// Longest message that either side may be set to take: what the protocol can say.
pub(crate) const MESSAGE_BYTES_MAX: u32 = i32::MAX as u32;

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
/// Points on the ring together, about: 4 MiB on each core. Hosts whose weights add up to more get
/// fewer points for each unit of weight.
pub(crate) const RING_POINTS_MAX: usize = 1 << 18;
/// Calls in flight below which the owner of a key is not overloaded: a burst for one key is no reason
/// to give it to another host.
pub(crate) const OWNED_CALLS_MIN: u32 = 16;
/// Heaviest weight of a host: shares in percent can be said, and the ring holds some hundred such
/// hosts before it gets coarse.
pub(crate) const HOST_WEIGHT_MAX: u32 = 100;

// Retries and hedges.

/// Longest wait before the first retry: about what a restarted connection takes.
pub(crate) const RETRY_DELAY_FIRST: Duration = Duration::from_millis(20);
/// Longest wait before any retry: callers are waiting.
pub(crate) const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Longest wait that a server may ask for before a retry: whoever calls without a deadline is told of a
/// longer one instead.
pub(crate) const PUSHBACK_MAX: Duration = Duration::from_secs(60);
/// Further attempts that a target is worth before its calls have earned more.
pub(crate) const RETRY_BUDGET: u32 = 10;
/// Calls after which a percentile of latency means something.
pub(crate) const HEDGE_CALLS_MIN: u32 = 100;
/// Calls after which the older half of them counts half.
pub(crate) const HEDGE_MEMORY: u32 = 2_000;

/// A second attempt for which nobody has room is looked at again so much later, at the soonest: room comes
/// with replies, and a call that waits for one costs a timer each time.
pub(crate) const HEDGE_LOOK_AGAIN: Duration = Duration::from_millis(10);

// Ejection of hosts.

/// First ejection: enough for a process to restart a listener.
pub(crate) const EJECTION_FIRST: Duration = Duration::from_millis(100);
/// Longest ejection: a host that is back should not stay idle for minutes.
pub(crate) const EJECTION_MAX: Duration = Duration::from_secs(30);
/// How long one call may decide alone whether an ejected host is used again: more than most take, and
/// little beside the time for which streams and long polls last.
pub(crate) const TRIAL_MAX: Duration = Duration::from_secs(1);
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
/// How many more calls run than the best rate needs: what they wait for each other shows that there
/// is no room for more, and noise must not make them too few.
pub(crate) const ADAPTIVE_GAIN: f64 = 1.5;
/// A latency so many times the least one is not noise.
pub(crate) const ADAPTIVE_SLOW: f64 = 2.0;
/// Latencies that differ by less are the same.
pub(crate) const ADAPTIVE_SAME: f64 = 1.3;
/// Windows whose best rate counts: about two seconds.
pub(crate) const ADAPTIVE_RATES: usize = 8;
/// A latency that nobody minds: the limit is not lowered to get below it. Some round trips within a
/// data centre, so that their number does not bound what clients can have under way.
pub(crate) const ADAPTIVE_UNMINDED: Duration = Duration::from_millis(5);
/// How many times the work of the calls that succeed is reckoned with where others fail.
pub(crate) const ADAPTIVE_WORK_MAX: f64 = 100.0;
/// Window of measuring, where it shows enough calls: the limit follows within a second.
pub(crate) const ADAPTIVE_WINDOW: Duration = Duration::from_millis(200);
/// After so long a window in which nobody had to wait begins anew.
pub(crate) const ADAPTIVE_WINDOW_MAX: Duration = Duration::from_secs(2);
/// Calls that end a window early.
pub(crate) const ADAPTIVE_CALLS_MAX: u32 = 2_000;
/// Calls that a window has to show, or as many as may run at once where these are fewer.
pub(crate) const ADAPTIVE_CALLS_MIN: u32 = 40;
/// How long clients are held to a limit that was reached: the next window comes within that.
pub(crate) const PRESSURE_KEPT: Duration = Duration::from_millis(500);
/// A call that begins so long after it came shows that its core has more to do than it can: a fifth of
/// what nobody minds.
pub(crate) const LATE: Duration = Duration::from_millis(1);
/// Calls that clients may have under way for each 100 that may run. As many more have to wait that it
/// shows whether there is room for more, and no more than the queue bears.
pub(crate) const LEASE_PERCENT: u32 = 125;
/// How long a least latency is believed that is not seen again. Then the limit is lowered for a few
/// windows, which costs about two calls of a hundred.
pub(crate) const ADAPTIVE_REMEASURE: Duration = Duration::from_secs(20);

// Lines.

/// Time over which it is counted how fast a line moves: many turns, and little beside a deadline.
pub(crate) const PACE_WINDOW: Duration = Duration::from_millis(50);

/// The part of its time, as a divisor, that a call may have to wait in order. Callers that wait for
/// their answers before they call again are served in order up to that; beyond it the time that is
/// left would go down until it is not enough.
pub(crate) const PATIENCE_PART: u32 = 4;
/// The part of its time that a waiting call must have left to be sent, as a divisor: with less it is
/// mostly carried out for nobody.
pub(crate) const LEFT_PART_MIN: u32 = 8;

// Metrics.

/// Names of methods of one side that are told apart: more than any program has, and about 10 MiB at
/// most for each core that lives.
pub(crate) const METRIC_NAMES_MAX: usize = 1_024;

// Streams.

/// Messages that wait for one reader. Credit bounds their bytes; this bounds those that have none,
/// at 4 MiB of bookkeeping.
pub(crate) const STREAM_MESSAGES_MAX: usize = 1 << 20;

/// A received message up to this size is appended to its stream's chunk. A larger one gets memory
/// of its own, since a chunk would hold only a few of them.
pub(crate) const STREAM_BORROWED_COPIED_MAX: usize = 4 * 1024;

/// A message that came in memory of its own is copied nevertheless up to this size: queued, it
/// could keep alive a buffer many times as large.
pub(crate) const STREAM_OWNED_COPIED_MAX: usize = 512;

/// The first chunk of a stream: thousands of quiet streams must not cost much.
pub(crate) const STREAM_CHUNK_BYTES_MIN: usize = 1024;

/// Chunks are used again up to this size. A burst makes larger ones, up to the stream's window,
/// which are given back when they have been read.
pub(crate) const STREAM_CHUNK_BYTES_KEPT: usize = 128 * 1024;

/// Batches of streams that have ended whose memory a thread keeps: a burst of streams that open and
/// close. With the two bounds below that is 2 MiB at most.
pub(crate) const SPARE_BATCHES_MAX: usize = 256;

/// Largest chunk of such a batch: streams of a few small messages are those worth it.
pub(crate) const SPARE_BATCH_BYTES_MAX: usize = 4 * 1024;

/// Messages that such a batch has room for without growing.
pub(crate) const SPARE_BATCH_MESSAGES_MAX: usize = 1024;

/// Bytes that a reader may have taken before its connection is told: a sixteenth of the smallest
/// window, so the peer never stops for want of this.
pub(crate) const STREAM_TAKEN_BYTES_MAX: usize = 4 * 1024;

/// What a message is encoded into is kept up to this size; a larger message takes its memory along
/// instead of being copied.
pub(crate) const SCRATCH_BYTES_MAX: usize = 64 * 1024;

/// Messages in a pipe between a core and another thread: enough to cover a wake-up of either side
/// at a few hundred thousand messages a second (to a reader: batches). As many may have been taken
/// and wait at the other side. A handler's return adds what its pipe holds to its stream's queue.
pub(crate) const BRIDGE_MESSAGES_MAX: usize = 64;

/// Bytes in such a pipe, exceeded by one message or batch at most: a handle off its core must not
/// hold much more than a stream's window.
pub(crate) const BRIDGE_BYTES_MAX: usize = 256 * 1024;

// Clients.

/// Time for a unary call whose method and caller name none: a user has left by then.
pub(crate) const UNARY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after its deadline a call may be with the core that makes it for another thread: that
/// tells of it in time unless it is held up, which must not hold up who waits.
pub(crate) const FAR_PATIENCE: Duration = Duration::from_millis(100);

/// Below this a call's time counts from an exact look at the clock, above it from the beginning of
/// the core's turn: turns are that much shorter, and most calls are spared the look.
pub(crate) const TIMEOUT_EXACT_BELOW: Duration = Duration::from_secs(1);

/// How long a call that waits for room and is told to go on has for that, before others are told: its
/// task mostly runs in the same turn of the core, and turns are shorter.
pub(crate) const TURN_KEPT: Duration = Duration::from_millis(10);

/// Places of a line that are looked at, from the first one on with time enough, for one who waits: those
/// between were called or stand apart, as many as a connection has room for. It takes microseconds.
pub(crate) const PLACES_LOOKED_AT: usize = 1_024;

/// Calls of one pool that wait for room. Each costs about 100 bytes, and waits longer than any
/// deadline should be where so many are before it.
pub(crate) const WAITING_CALLS_MAX: usize = 65_536;

/// Bytes of a reply that a server may send before it is granted more: what a server accepts of a
/// request by default.
pub(crate) const REPLY_CREDIT: u32 = 1024 * 1024;

/// A request up to this size is copied into the connection's output; a larger one is shared with
/// it. Copying so much costs about as much as counting references.
pub(crate) const REQUEST_COPY_BYTES_MAX: usize = 4 * 1024;

/// Memory kept to encode requests and metadata in. More is given back to the allocator.
pub(crate) const CLIENT_SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Encoded requests up to this size are copied out of the memory above, into memory of just their
/// size; longer ones take that memory with them.
pub(crate) const SCRATCH_COPY_BYTES_MAX: usize = 4 * 1024;

/// Views that one connection takes in before the other tasks of its core run: some hundred
/// kilobytes.
pub(crate) const VIEWS_PER_TURN: usize = 16;

/// Bytes of one connection that may wait for the kernel: enough to keep it busy, and little enough
/// for a small call not to wait behind them.
pub(crate) const OUTPUT_QUEUED_MAX: usize = 256 * 1024;

/// Bytes of a line that are shown where a server answers in another protocol: enough for a status line.
pub(crate) const FOREIGN_LINE_SHOWN: usize = 80;

/// Servers of one client: each call looks at all of them, and each core connects to all.
pub(crate) const HOSTS_MAX: usize = 1_024;

/// Connections to one host from one core, if nothing else is said: each carries a thousand calls.
pub(crate) const CONNECTIONS_MAX: usize = 4;

/// Connections to one host from one core that may be asked for: they carry a million calls, and are
/// all looked at for each.
pub(crate) const CONNECTIONS_SETTABLE: usize = 1_024;

/// How long a connection beyond the least number is kept without a call.
pub(crate) const SPARE_CONNECTION_KEPT: Duration = Duration::from_secs(30);

/// The first wait after a failed attempt to connect: a restarting local server often is back.
pub(crate) const RECONNECT_DELAY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between attempts to connect: for so long a server may be back and nobody call it,
/// and an attempt every few seconds costs neither side anything.
pub(crate) const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(3);

/// Time for one attempt to connect: three SYNs of the kernel (at 0, 1 and 3 s) fit.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of one call: a third one seldom helps where two have failed.
pub(crate) const ATTEMPTS_MAX: u8 = 3;

/// Longest request, in bytes, that is sent again: more would double real load.
pub(crate) const REPLAY_BYTES_MAX: usize = 256 * 1024;

// Servers.

/// Bytes of the shortest message that is compressed unless told otherwise: what is less fits a packet anyway.
pub(crate) const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// The part of a connection's age by which it may be younger or older at its end: a tenth, as gRPC has it,
/// so that clients which connected to a new server together do not come back together.
pub(crate) const CONNECTION_AGE_JITTER: f64 = 0.1;

/// How long a connection may take to say which protocol it speaks: many round trips, and short for
/// those who open connections only to hold them.
pub(crate) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(3);
/// Calls that wait on all connections of a server, unless the user says otherwise: each holds a task
/// and its request, together about a gigabyte at 10 KiB each.
pub(crate) const IN_FLIGHT_MAX: usize = 100_000;
/// Received bytes, and memory for what is not whole, that each core keeps for handlers that have not
/// read them, unless the user says otherwise: the windows of 256 streams whose readers stand still, and little beside the memory of
/// servers that have so many.
pub(crate) const UNREAD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes that the readers of a connection take before the core is told: a kilobyte is dozens of small
/// messages, and little beside what a connection takes up anyway. What is left is told at the latest
/// when more is received, and before anything is ended for want of room.
pub(crate) const TAKEN_STEP: usize = 1024;
/// Bytes of answers that each core keeps for clients that have not taken them, for each byte of those
/// above: a gigabyte, or 256 answers of the largest size that clients take by default. There were no
/// such answers if handlers had not been let run, so they are given more room.
pub(crate) const UNSENT_TO_UNREAD: usize = 4;
/// The part of either that is made free when there is more: all connections are looked at for that, so
/// it is not to be needed for each message.
pub(crate) const RELIEF_SHARE: usize = 8;
/// How long clients are asked for less at least: they are told twice in this time, and bear four
/// times a second.
pub(crate) const TIGHT_AT_LEAST: Duration = Duration::from_secs(1);
/// How long handlers that never wait may keep their core in one turn of it, all together; calls that
/// come then wait for the next. A few round trips: replies leave, timers and other tasks have their
/// turn, and a look at the clock after it costs nothing beside.
pub(crate) const TURN_WORK: Duration = Duration::from_millis(5);
/// Calls of one method that wait for room to run, on each core: some milliseconds of work.
pub(crate) const QUEUE_ROOM: usize = 256;
/// Tickets of requests that have ended which a queue keeps at most, beside as many as wait: forgetting them
/// is a look at all.
pub(crate) const STALE_TICKETS: usize = 64;
/// Calls of a queue that are answered in one turn because it is too late for them: some hundred
/// microseconds.
pub(crate) const OVERDUE_PER_TURN: usize = 256;
/// How long a queue may stand, and a call wait in it, before the server counts as overloaded.
pub(crate) const QUEUE_PATIENCE: Duration = Duration::from_millis(100);
/// How long a call may wait in an overloaded server: what is older hardly finds its caller waiting.
pub(crate) const QUEUE_PATIENCE_OVERLOADED: Duration = Duration::from_millis(5);
/// How long calls may take to end when a server stops: with the grace below it is over before the 30
/// seconds after which Kubernetes kills a process.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// How long a connection without calls is kept when the server stops, for the client to end it: a
/// few round trips.
pub(crate) const DRAIN_LINGER: Duration = Duration::from_millis(250);
/// How long sockets may take after that to bring the last answers to the clients.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// Queued bytes of a socket below which it is given more. What is not queued yet can still be
/// overtaken by a small message, so this is a few turns' worth and no more.
pub(crate) const LOW_WATER: usize = 64 * 1024;
/// How often the task of a connection takes in what came and hands out what is to be sent before it
/// lets other tasks run: a few times are common, and no peer is to keep a core for itself.
pub(crate) const ROUNDS_PER_TURN: usize = 64;
/// Answers that wait for a client that does not read, above which its requests wait as well.
pub(crate) const UNSENT_REPLIES_MAX: usize = 1024 * 1024;
/// Received messages up to this size share a chunk of memory instead of having an allocation each.
pub(crate) const PACKED_BYTES_MAX: usize = 256;

/// The size of such a chunk, which is what one message that is kept for long may cost: little, yet
/// enough that an allocation serves dozens of small messages.
pub(crate) const PACKED_CHUNK_BYTES: usize = 4 * 1024;

/// Calls of a method that end in place within this time each are timed together, in rows.
pub(crate) const TIMED_ALONE_FROM: Duration = Duration::from_micros(2);

/// How many such calls one look at the clock may serve at most: enough that it costs little, and
/// few enough that one long call among them is found.
pub(crate) const TIMED_TOGETHER_MAX: u32 = 16;

/// Replies up to this size are copied behind one another: cheaper than a segment each.
pub(crate) const REPLY_COPY_MAX: usize = 4 * 1024;
/// Memory for encoding that a connection keeps from call to call.
pub(crate) const SERVER_SCRATCH_BYTES_KEPT: usize = 16 * 1024;
/// Shortest time for which a connection's alarm is set: the precision of timers.
pub(crate) const ALARM_STEP: Duration = Duration::from_millis(1);
/// Numbers of methods below this are looked up by index on each connection, in a KiB at most: clients
/// number from 1 on, and one that names a large number alone is not to cost its server more.
pub(crate) const SMALL_NUMBERS: u32 = 256;
/// Services whose health a server keeps: more than any has, and a bound for those who set it by name.
pub(crate) const HEALTH_SERVICES_MAX: usize = 1_000;

/// Messages from this length on stay in the receive buffer when they are kept: a copy of this many
/// bytes costs as much as the count of who reads them.
pub(crate) const KEPT_IN_PLACE_MIN: usize = 4 << 10;
