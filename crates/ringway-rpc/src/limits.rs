//! Every bound of this crate, with its reason.

mod admission;
mod console;
mod jsonrpc;

use std::time::Duration;

pub(crate) use admission::*;
pub(crate) use console::*;
pub(crate) use jsonrpc::*;

// Calls.

/// Contexts of ended calls that a core keeps for reuse, about 200 bytes each: calls that wait begin and
/// end in bursts.
pub(crate) const SPARE_CONTEXTS_MAX: usize = 1_024;

/// Metadata of a call, keys and values together: the default that the native protocol and most gRPC
/// servers accept.
pub(crate) const METADATA_BYTES_MAX: usize = 16 * 1024;

/// Longest message that either side may be configured to accept: the protocol's maximum.
pub(crate) const MESSAGE_BYTES_MAX: u32 = i32::MAX as u32;

// Balancing.

/// Hosts that the default policy compares for a call: four find a slow host's alternatives far
/// more often than two (brpc PR 3367: p99 545 µs in place of 6,460), more would herd.
pub(crate) const HOSTS_SAMPLED: usize = 4;
/// How long a host that joins gets less than its share, so that its caches can warm up.
pub(crate) const HOST_RAMP: Duration = Duration::from_secs(10);
/// Time constant of the latency average: long enough to avoid a stalled host, short enough to try it
/// again.
pub(crate) const LATENCY_MEMORY: Duration = Duration::from_secs(10);
/// Points of a host of weight 1 on the ring: shares differ by about a tenth.
pub(crate) const RING_POINTS: usize = 100;
/// Points on the ring together, about: 4 MiB on each core. Hosts whose weights add up to more get
/// fewer points for each unit of weight.
pub(crate) const RING_POINTS_MAX: usize = 1 << 18;
/// Calls in flight below which the owner of a key is not overloaded: a burst for one key is no reason
/// to give it to another host.
pub(crate) const OWNED_CALLS_MIN: u32 = 16;
/// How long after a client's first connection has opened its calls keep the shares of servers that are still being
/// connected to: a handshake with TLS over a long way fits, and few notice it if such a server is dead.
pub(crate) const OPENING_PATIENCE: Duration = Duration::from_millis(100);
/// Divisor of the time that a waiting call has left, which bounds that patience: most of it is for the call.
pub(crate) const OPENING_PART: u32 = 8;
/// The golden ratio in parts of 2⁶⁴: any number of multiples of it are spread evenly, so clients that begin one step
/// further each spread their first calls.
pub(crate) const GOLDEN_STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// Longest part of a round of round robin that is skipped when a client begins: a round over as many hosts as a client
/// has, in which heavier ones are mixed by then.
pub(crate) const ROUND_BEGUN_MAX: u64 = HOSTS_MAX as u64;
/// Heaviest weight of a host: shares in percent can be said, and the ring holds some hundred such
/// hosts before it gets coarse.
pub(crate) const HOST_WEIGHT_MAX: u32 = 100;

// Retries and hedges.

/// Longest wait before the first retry: about what a restarted connection takes.
pub(crate) const RETRY_DELAY_FIRST: Duration = Duration::from_millis(20);
/// Longest wait before any retry: callers are waiting.
pub(crate) const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Longest wait that a server may ask for before a retry; a longer one is returned to the caller, who may
/// have no deadline.
pub(crate) const PUSHBACK_MAX: Duration = Duration::from_secs(60);
/// Retries that a client may make before its calls have earned more.
pub(crate) const RETRY_BUDGET: u32 = 10;
/// Calls after which a percentile of latency means something.
pub(crate) const HEDGE_CALLS_MIN: u32 = 100;
/// Calls after which the older half of them counts half.
pub(crate) const HEDGE_MEMORY: u32 = 2_000;

/// How long a hedge that no host has room for waits before it is tried again, at least: replies make
/// room, and each trial costs a timer.
pub(crate) const HEDGE_LOOK_AGAIN: Duration = Duration::from_millis(10);

// Ejection of hosts.

/// First ejection: enough for a process to restart a listener.
pub(crate) const EJECTION_FIRST: Duration = Duration::from_millis(100);
/// Longest ejection: a host that is back should not stay idle for minutes.
pub(crate) const EJECTION_MAX: Duration = Duration::from_secs(30);
/// How long a single call may decide whether an ejected host is used again: more than most calls take,
/// and little compared with streams and long polls.
pub(crate) const TRIAL_MAX: Duration = Duration::from_secs(1);
/// Share of the hosts that may be out of use: the others have to carry the load.
pub(crate) const EJECTED_PERCENT_MAX: usize = 30;
/// Calls without any answer, in a row, after which a host is ejected.
pub(crate) const SILENT_IN_A_ROW: u32 = 5;
/// Size of the short window of results, which finds hosts that break down.
pub(crate) const FAILURES_SHORT: u32 = 20;
/// Share of failures in the short window that ejects a host.
pub(crate) const FAILURES_SHORT_SHARE: f64 = 0.6;
/// Size of the long window of results, which finds hosts that are merely bad.
pub(crate) const FAILURES_LONG: u32 = 200;
/// Share of failures in the long window that ejects a host.
pub(crate) const FAILURES_LONG_SHARE: f64 = 0.2;

// The adaptive limit of concurrent calls.

/// Initial limit, before anything was measured.
pub(crate) const ADAPTIVE_START: u32 = 64;
/// Smallest limit.
pub(crate) const ADAPTIVE_MIN: u32 = 4;
/// Largest limit: a core has no use for more handlers.
pub(crate) const ADAPTIVE_MAX: u32 = 65_536;
/// Factor by which more calls run than the best rate needs: waiting among them shows that the method is
/// saturated, and noise must not make the limit too low.
pub(crate) const ADAPTIVE_GAIN: f64 = 1.5;
/// A latency of this many times the least one is not noise.
pub(crate) const ADAPTIVE_SLOW: f64 = 2.0;
/// Latencies that differ by less than this factor count as equal.
pub(crate) const ADAPTIVE_SAME: f64 = 1.3;
/// Number of windows whose best rate counts: about two seconds.
pub(crate) const ADAPTIVE_RATES: usize = 8;
/// An acceptable latency: the limit is not lowered to get below it. It is several round trips within a
/// data centre, so that those do not bound how many calls clients can have in flight.
pub(crate) const ADAPTIVE_UNMINDED: Duration = Duration::from_millis(5);
/// Upper bound of the factor by which failing calls may inflate the work of successful ones.
pub(crate) const ADAPTIVE_WORK_MAX: f64 = 100.0;
/// Length of a measuring window that has enough calls: the limit follows within a second.
pub(crate) const ADAPTIVE_WINDOW: Duration = Duration::from_millis(200);
/// The same while the least latency is searched for, which takes a few windows: a method that is overloaded from the
/// start has its limit in a quarter of a second.
pub(crate) const ADAPTIVE_SEARCH_WINDOW: Duration = Duration::from_millis(50);
/// Longest window in which no call had to wait; then a new one begins.
pub(crate) const ADAPTIVE_WINDOW_MAX: Duration = Duration::from_secs(2);
/// Calls that end a window early.
pub(crate) const ADAPTIVE_CALLS_MAX: u32 = 2_000;
/// Calls that a window needs, or the limit itself where that is lower.
pub(crate) const ADAPTIVE_CALLS_MIN: u32 = 40;
/// How long clients are held to a limit after it was reached: the next window ends within that time.
pub(crate) const PRESSURE_KEPT: Duration = Duration::from_millis(500);
/// A call that begins this late shows that its core is overloaded: a fifth of the acceptable latency.
pub(crate) const LATE: Duration = Duration::from_millis(1);
/// Calls in flight that clients are offered for each 100 that may run. The excess waits, which shows
/// whether the limit can be raised, and fits the queue.
pub(crate) const LEASE_PERCENT: u32 = 125;
/// How long the least latency is believed without being measured again. Then the limit is lowered for a
/// few windows, which costs about two calls in a hundred.
pub(crate) const ADAPTIVE_REMEASURE: Duration = Duration::from_secs(20);

// Queues.

/// Time over which the speed of a queue is measured: many turns, and short compared with a deadline.
pub(crate) const PACE_WINDOW: Duration = Duration::from_millis(50);

/// Divisor of the time that a call has, which gives how long it may wait in order. Callers that wait for
/// their answers before they call again are served in order up to that; beyond it, calls would have less
/// and less time left when they are sent.
pub(crate) const PATIENCE_PART: u32 = 4;
/// Divisor of the time that a call had, which gives what it must have left to be sent: with less, its
/// answer mostly comes too late.
pub(crate) const LEFT_PART_MIN: u32 = 8;

/// Time over which it is measured whether more calls come than are served: with the windows below, most of those that are
/// refused then have waited for half of the time in which they are to be told.
pub(crate) const FLOOD_WINDOW: Duration = Duration::from_millis(25);
/// Calls that come for each 100 that are served, from which on they are a flood: noise is less.
pub(crate) const FLOOD_PERCENT: u64 = 150;
/// Calls served in a window without which it is too short to say anything about that.
pub(crate) const FLOOD_SERVED_MIN: u32 = 16;
/// How long the speed of a queue that has emptied is believed. Where few calls are taken at a time, an overloaded queue
/// empties again and again, but servers that were slow a while ago may be fast now.
pub(crate) const FLOOD_REMEMBERED: Duration = Duration::from_secs(1);
/// Calls of a queue, the newest, that are asked for the time that they have: if all are in a hurry, so are most.
pub(crate) const NEWEST_ASKED: usize = 64;
/// Windows in a row after which a flood is one: a burst comes in the first.
pub(crate) const FLOOD_WINDOWS: u32 = 2;
/// How long a call may wait in a client whose servers are overloaded and have told so: the newest are served at once, and
/// whoever has waited for that long is mostly not served any more before its deadline.
pub(crate) const OVERLOADED_WAIT: Duration = Duration::from_millis(50);

// Metrics.

/// Method names of one side that are counted separately: more than any program has, and at most about 10
/// MiB for each live core.
pub(crate) const METRIC_NAMES_MAX: usize = 1_024;

// Streams.

/// How long a reply is awaited, with nothing sent on its stream of requests, before that is logged: the
/// default time of a unary call. It is a guess that `finish` was forgotten, so nothing else happens.
pub(crate) const FINISH_FORGOTTEN: Duration = Duration::from_secs(10);

/// Messages that wait for one reader. Credit bounds their bytes; this bounds empty ones, at 4 MiB of
/// bookkeeping.
pub(crate) const STREAM_MESSAGES_MAX: usize = 1 << 20;

/// A received message up to this size is appended to its stream's chunk. A larger one gets memory
/// of its own, since a chunk would hold only a few of them.
pub(crate) const STREAM_BORROWED_COPIED_MAX: usize = 4 * 1024;

/// A message with memory of its own is still copied up to this size, because it could keep a much larger
/// buffer alive.
pub(crate) const STREAM_OWNED_COPIED_MAX: usize = 512;

/// The first chunk of a stream: thousands of quiet streams must not cost much.
pub(crate) const STREAM_CHUNK_BYTES_MIN: usize = 1024;

/// Chunks are used again up to this size. A burst makes larger ones, up to the stream's window,
/// which are given back when they have been read.
pub(crate) const STREAM_CHUNK_BYTES_KEPT: usize = 128 * 1024;

/// Batches of ended streams that a thread keeps for reuse: a burst of streams that open and close. With
/// the two bounds below, that is 2 MiB at most.
pub(crate) const SPARE_BATCHES_MAX: usize = 256;

/// Largest chunk of a batch that is kept: it serves streams of a few small messages.
pub(crate) const SPARE_BATCH_BYTES_MAX: usize = 4 * 1024;

/// Largest number of messages for which a batch that is kept has room.
pub(crate) const SPARE_BATCH_MESSAGES_MAX: usize = 1024;

/// Bytes that a reader may take before its connection is told: a sixteenth of the smallest window, so
/// that the peer never runs out of credit because of it.
pub(crate) const STREAM_TAKEN_BYTES_MAX: usize = 4 * 1024;

/// Largest encoding buffer that is kept; a larger message takes the buffer with it instead of being
/// copied.
pub(crate) const SCRATCH_BYTES_MAX: usize = 64 * 1024;

/// Messages (to a reader: batches) in a pipe between a core and another thread: enough to cover a wake-up
/// of either side at a few hundred thousand messages a second. As many may have been taken out and not
/// processed. When a handler returns, the content of its pipe goes to its stream's queue.
pub(crate) const PIPE_MESSAGES_MAX: usize = 64;

/// Bytes in such a pipe, exceeded by at most one message or batch: a handle off its core must not hold
/// much more than a stream's window.
pub(crate) const PIPE_BYTES_MAX: usize = 256 * 1024;

// Clients.

/// Timeout of a unary call if neither the method nor the caller sets one: a user has left by then.
pub(crate) const UNARY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after its deadline a caller on another thread still waits for the core that makes the call.
/// The core reports the timeout itself unless it is blocked, and then must not block the caller too.
pub(crate) const REMOTE_GRACE: Duration = Duration::from_millis(100);

/// How long after its deadline a call waits for interceptors that have begun it and do not poll it: its core tells
/// it within a turn that the time is over.
pub(crate) const UNPOLLED_GRACE: Duration = Duration::from_millis(100);

/// How long a queued call that was told to go on may take to do so before others are told: its task
/// usually runs in the same turn of the core.
pub(crate) const TURN_KEPT: Duration = Duration::from_millis(10);

/// Entries of a wait queue that are searched for one with enough time left. The entries skipped are at
/// most as many as a connection has room for; the search takes microseconds.
pub(crate) const WAITERS_SEARCHED_MAX: usize = 1_024;

/// Connections that are offered a call whose metadata is longer than they take: mostly all servers have the same limit,
/// and each offer looks at all of them.
pub(crate) const TOO_LARGE_OFFERS: u32 = 16;

/// Calls of one pool that wait for room. Each costs about 100 bytes, and behind this many, a call waits
/// longer than any sensible deadline.
pub(crate) const WAITING_CALLS_MAX: usize = 65_536;

/// Bytes of a reply that a server may send before it gets more credit: the same as a server's default for
/// requests.
pub(crate) const REPLY_CREDIT: u32 = 1024 * 1024;

/// A request up to this size is copied into the connection's output; a larger one is shared with it.
/// Copying this many bytes costs about as much as reference counting.
pub(crate) const REQUEST_COPY_BYTES_MAX: usize = 4 * 1024;

/// Size of the buffer that is kept for encoding requests and metadata. A larger one is freed.
pub(crate) const CLIENT_SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Encoded requests up to this size are copied out of that buffer, into memory of exactly their size;
/// longer ones take the buffer with them.
pub(crate) const SCRATCH_COPY_BYTES_MAX: usize = 4 * 1024;

/// Receive buffers that one connection processes before other tasks of its core run: some hundred
/// kilobytes.
pub(crate) const VIEWS_PER_TURN: usize = 16;

/// Received bytes after which a connection lets other tasks of its core run, the readers of its streams
/// among them: one of the large receive buffers. What came is then still in the cache, and batches of
/// messages stay below [`STREAM_CHUNK_BYTES_KEPT`].
pub(crate) const INTAKE_BYTES_PER_TURN: usize = 128 * 1024;

/// Bytes of whole requests that may wait until their core has time to start their handlers, above which no more
/// is received from their connection: what it takes in at once.
pub(crate) const DEFERRED_BYTES_MAX: usize = INTAKE_BYTES_PER_TURN;

/// Received bytes after which the connections of a core that take in much wait for its next turn: eight shares of
/// a connection. That is some thousand small requests, which take a few milliseconds.
pub(crate) const INTAKE_BYTES_PER_CORE_TURN: usize = 8 * INTAKE_BYTES_PER_TURN;

/// Received bytes below which a connection does not wait for that, unless such connections have taken in as much
/// again: the calls of some tens of milliseconds at a thousand a second.
pub(crate) const INTAKE_SMALL_BYTES: usize = 16 * 1024;

/// Calls that wait for nothing but their core's time while no more are taken in for the connections of the line:
/// what the core runs in one turn if they are short.
pub(crate) const CALLS_BEHIND_MAX: usize = 1_024;

/// Bytes of one connection that may be queued in the kernel: enough to keep it busy, and few enough that
/// a small call does not wait behind them.
pub(crate) const OUTPUT_QUEUED_MAX: usize = 256 * 1024;

/// Bytes of the first line that are shown if a server answers in another protocol: enough for a status
/// line.
pub(crate) const FOREIGN_LINE_SHOWN: usize = 80;

/// Servers of one client: each call looks at all of them, and each core connects to all.
pub(crate) const HOSTS_MAX: usize = 1_024;

/// Default maximum of connections to one host from one core: each carries a thousand calls.
pub(crate) const CONNECTIONS_MAX: usize = 4;

/// Largest settable maximum of connections to one host from one core: they carry a million calls, and
/// each call looks at all of them.
pub(crate) const CONNECTIONS_SETTABLE: usize = 1_024;

/// How long a connection beyond the minimum is kept without a call.
pub(crate) const SPARE_CONNECTION_KEPT: Duration = Duration::from_secs(30);

/// The first wait after a failed attempt to connect: a restarting local server often is back.
pub(crate) const RECONNECT_DELAY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between attempts to connect: a server may be back for that long without being called,
/// and an attempt every few seconds costs neither side much.
pub(crate) const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(3);

/// Silence after which the kernel probes a gRPC server: two minutes, in which few routers forget a
/// connection, and which costs neither side's program anything.
pub(crate) const GRPC_KEEPALIVE: Duration = Duration::from_secs(120);

/// Time for one attempt to connect: three SYNs of the kernel (at 0, 1 and 3 s) fit.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of one call: a third one seldom helps after two have failed.
pub(crate) const ATTEMPTS_MAX: u8 = 3;

/// Longest request, in bytes, that is sent again: more would double real load.
pub(crate) const REPLAY_BYTES_MAX: usize = 256 * 1024;

// Servers.

/// Bytes that a stream of requests over HTTP may send before its handler has read them: the same as the
/// first window of gRPC.
pub(crate) const DIRECT_WINDOW: usize = 1024 * 1024;

/// What a message between HTTP and a handler counts beside its bytes, so that empty ones are bounded too.
pub(crate) const DIRECT_MESSAGE_COST: usize = 32;

/// What answers a request over HTTP/2, kept for the next request of its connection: a browser asks for about six
/// things at once, and each takes some KiB until the connection rests.
pub(crate) const GUEST_DOORS_KEPT: usize = 8;

/// Messages of a whole body that a stream is given before others have their turn: a core polls a thousand times in a turn, and
/// the smallest messages take less than a microsecond each.
pub(crate) const WEB_MESSAGES_AT_ONCE: usize = 16;

/// Bytes of replies over HTTP that are gathered into one chunk: some system calls' worth.
pub(crate) const WEB_CHUNK_BYTES: usize = 64 * 1024;

/// How long browsers may keep the answer to a preflight, unless the program says otherwise: Chromium's
/// own bound.
pub(crate) const CORS_MAX_AGE: Duration = Duration::from_secs(7_200);

/// Bytes that values of `-bin` headers may take which share a header with others, each counted with its name
/// and 32 bytes: as much as all fields of a request over gRPC.
pub(crate) const WEB_VALUES_BYTES_MAX: usize = 16 * 1024;

/// Messages in messages that are written as JSON, one in the other: as deep as prost decodes them, and far less than the
/// stack of a core holds.
pub(crate) const PROTOBUF_JSON_DEPTH: usize = 100;

/// How long a client may send nothing in a stream of requests over HTTP/1.1, which has no ping.
pub(crate) const WEB_STREAM_SILENCE: Duration = Duration::from_secs(300);

/// Default length of the shortest message that is compressed: shorter ones fit a packet anyway.
pub(crate) const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Share of a connection's maximum age by which the actual age varies: a tenth, as in gRPC, so that
/// clients which connected to a new server together do not come back together.
pub(crate) const CONNECTION_AGE_JITTER: f64 = 0.1;

/// How long a connection may take to send enough bytes for protocol detection: many round trips, and
/// short for those who open connections only to hold them.
pub(crate) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(3);
/// Default maximum of calls that wait on all connections of a server: each holds a task and its request,
/// together about a gigabyte at 10 KiB each.
pub(crate) const IN_FLIGHT_MAX: usize = 100_000;
/// Default maximum of received bytes, incomplete ones included, that each core keeps for handlers: the
/// windows of 256 streams whose readers stand still, and little compared with the memory of servers that
/// have so many.
pub(crate) const UNREAD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes that the readers of a connection take before the core is told: a kilobyte is dozens of small
/// messages, and little compared with the connection itself. The rest is reported when more is received,
/// and always before anything is ended for lack of memory.
pub(crate) const TAKEN_STEP: usize = 1024;
/// Factor from the bytes above to the reply bytes that each core keeps for clients: a gigabyte by
/// default, or 256 replies of the longest size that clients accept by default. Handlers have already done
/// the work for these, so they get more room.
pub(crate) const UNSENT_TO_UNREAD: usize = 4;
/// Divisor of either limit that gives how much is freed when it is exceeded: freeing looks at all
/// connections, so it must not be needed for each message.
pub(crate) const SHED_SHARE: usize = 8;
/// How long clients are asked to send less, at least: they are told twice in this time, and accept four
/// changes a second.
pub(crate) const SEND_LESS_MIN: Duration = Duration::from_secs(1);
/// How long handlers that never wait may occupy their core in one turn, all together; later calls wait
/// for the next turn. It is a few round trips: replies leave, timers and other tasks run, and reading the
/// clock costs little in comparison.
pub(crate) const TURN_WORK: Duration = Duration::from_millis(5);
/// Default capacity of a method's queue on each core: some milliseconds of work.
pub(crate) const QUEUE_ROOM: usize = 256;
/// Stale keys that a queue may hold beyond the number of valid ones: removing them looks at all entries.
pub(crate) const STALE_KEYS: usize = 64;
/// Calls of a queue that are answered as too late in one turn: some hundred microseconds.
pub(crate) const OVERDUE_PER_TURN: usize = 256;
/// How long a queue may go without emptying, and a call wait in it, before the server counts as
/// overloaded.
pub(crate) const QUEUE_PATIENCE: Duration = Duration::from_millis(100);
/// How long a call may wait in an overloaded server: callers of older ones have mostly given up.
pub(crate) const QUEUE_PATIENCE_OVERLOADED: Duration = Duration::from_millis(5);
/// Default time for calls to end when a server stops: with the grace below, it is over before the 30
/// seconds after which Kubernetes kills a process.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);
/// How long a connection is quiet before it frees what it keeps for its next calls: far above the time
/// between the calls of a busy client, for which a few allocations a second are nothing.
pub(crate) const REST_AFTER: Duration = Duration::from_secs(1);
/// How long a stopping server keeps a connection without calls, for the client to close it: a few round
/// trips.
pub(crate) const DRAIN_LINGER: Duration = Duration::from_millis(250);
/// How long sockets may take after that to deliver the last replies.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(2);
/// Length of a socket's send queue below which it gets more output. A small message can still overtake
/// output that is not queued, so this is only a few turns' worth.
pub(crate) const LOW_WATER: usize = 64 * 1024;
/// Rounds of receiving and sending that a connection's task does before it lets other tasks run: a few
/// are common, and no peer may monopolize a core.
pub(crate) const ROUNDS_PER_TURN: usize = 64;
/// Bytes of queued replies for a client that does not read, above which its requests are not read either.
pub(crate) const UNSENT_REPLIES_MAX: usize = 1024 * 1024;
/// The same while other connections wait for the core to take in their requests: as much as the socket's send queue
/// takes, so that a client that reads never runs dry.
pub(crate) const UNSENT_REPLIES_MAX_IN_LINE: usize = LOW_WATER;
/// How often the kernel is asked whether a client has gone that is neither read nor written to: its calls run in vain for
/// that long.
pub(crate) const PEER_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Received messages up to this size share a chunk of memory instead of having one allocation each.
pub(crate) const SMALL_COPY_BYTES_MAX: usize = 256;
/// The size of such a chunk, which one long-lived message may keep alive: small, yet one allocation
/// serves dozens of small messages.
pub(crate) const SMALL_COPY_CHUNK_BYTES: usize = 4 * 1024;
/// Full chunks of copies that a thread keeps until their messages are dropped, to use them again:
/// 64 KiB, in which a thousand replies of 64 bytes may be alive.
pub(crate) const SMALL_COPY_CHUNKS_KEPT: usize = 16;
/// Calls of a method that end in place and take less than this are timed together, in batches.
pub(crate) const TIMED_ALONE_FROM: Duration = Duration::from_micros(2);
/// Largest batch of calls that are timed with one reading of the clock: enough to make it cheap, and few
/// enough that one long call among them is noticed.
pub(crate) const TIMED_TOGETHER_MAX: u32 = 16;
/// Replies up to this size are copied one behind another, which is cheaper than one segment each.
pub(crate) const REPLY_COPY_MAX: usize = 4 * 1024;
/// Largest encoding buffer that a connection keeps from call to call.
pub(crate) const SERVER_SCRATCH_BYTES_KEPT: usize = 16 * 1024;
/// Shortest time for which a connection's timer is set: the precision of timers.
pub(crate) const ALARM_STEP: Duration = Duration::from_millis(1);
/// Method numbers below this index a vector on each connection, of a KiB at most: clients number from 1
/// on, and a single large number must not make the table large.
pub(crate) const SMALL_NUMBERS: u32 = 256;
/// Services whose health a server keeps: more than any server has, and a bound where names come from
/// users.
pub(crate) const HEALTH_SERVICES_MAX: usize = 1_000;

/// Messages from this length on stay in the receive buffer when they are kept: copying this many bytes
/// costs as much as reference counting.
pub(crate) const ZERO_COPY_BYTES_MIN: usize = 4 << 10;

/// Hosts that a client calls of a long list from a resolver, unless it is set. Each core connects to all of them, and
/// each call looks at all: a hundred spread the load well, and the loss of one is not felt.
pub(crate) const SUBSET_HOSTS: usize = 100;
/// Hosts in the list of a resolver. All but a subset are only remembered, with some hundred bytes each.
pub(crate) const LISTED_HOSTS_MAX: usize = 65_536;
/// How long a list that has lost more than half of its hosts is held back before its source may confirm it: longer than
/// a registry takes to restart, and shorter than the drain delay of servers that have really left.
pub(crate) const SHORT_LIST_HOLD: Duration = Duration::from_secs(2);
/// How long a source may take for its first list before the last known one is read from disk: a calm registry answers
/// within milliseconds, and calls wait meanwhile.
pub(crate) const LAST_KNOWN_WAIT: Duration = Duration::from_secs(1);
/// The pause between two writes of the last known list, each of which waits for the disk.
pub(crate) const LAST_KNOWN_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of the last known list on disk: as many hosts as a list has, each with some metadata.
pub(crate) const LAST_KNOWN_BYTES_MAX: usize = 32 << 20;
