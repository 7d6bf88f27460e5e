//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Default time of an operation, from its call to its result: 30 s, after which a service's caller has
/// given up long ago.
pub const OPERATION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Default time to connect, with TLS, `hello` and authentication, as in MongoDB's other drivers.
pub(crate) const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// How long a connection is quiet before the kernel asks whether the other end is there: two minutes, as in MongoDB's
/// other drivers. Address translators and load balancers forget quiet connections after four.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(120);

/// Libraries around a client that servers are told of, and bytes of a name: all that is told of a client has 512 bytes.
pub(crate) const DRIVER_INFOS_MAX: usize = 8;
pub(crate) const DRIVER_INFO_LEN_MAX: usize = 64;

/// Bytes that are read of the file with the name of the system, which has some hundreds.
pub(crate) const OS_RELEASE_LEN_MAX: u64 = 16 << 10;

/// Default size of a core's pool: 100 connections, as in MongoDB's other drivers. A server has a thread for
/// each.
pub(crate) const POOL_SIZE_DEFAULT: u32 = 100;

/// Largest size of a core's pool: a server refuses more than 64 Ki connections.
pub(crate) const POOL_SIZE_MAX: u32 = 1 << 16;

/// How often a pool with a least number of connections looks whether some are missing: soon after they have ended, and
/// seldom enough for a server that refuses them.
pub(crate) const FILL_PERIOD: Duration = Duration::from_secs(1);

/// How long a transaction is repeated after failures that pass: two minutes, by the specification.
pub(crate) const TRANSACTION_TIME_MAX: Duration = Duration::from_secs(120);

/// What the longest pause before a transaction is repeated grows from, by half of itself each time, and the longest at all, by
/// the specification.
pub(crate) const TRANSACTION_PAUSE_BASE: Duration = Duration::from_millis(5);
pub(crate) const TRANSACTION_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Connections that a pool opens at a time; the specification of pools sets it.
pub(crate) const CONNECTING_MAX_DEFAULT: u32 = 2;

/// Longest pause before another connection is made where the server ends new ones, and others of the pool are there: one second,
/// so that the pool grows soon when the server takes them again.
pub(crate) const CONNECTING_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Time for a reply that nobody waits for any more, so that its connection can be used again: one second,
/// in which a new connection would have been made many times.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Most connections that wait for such replies at a time; further ones are closed. Their number would
/// otherwise follow the number of operations that are given up.
pub(crate) const DRAINING_MAX: usize = 64;

/// Longest command, in bytes, that is copied into the send queue, where small ones of a turn are joined.
/// A longer one is moved there.
pub(crate) const COPIED_MAX: usize = 16 << 10;

/// Bytes that a connection may have queued for a server that reads slowly: one command of 48 MB, the longest
/// there is.
pub(crate) const SEND_QUEUE_MAX: usize = 64 << 20;

/// Default length of GridFS's chunks, as in MongoDB's other drivers: 255 KiB, so that a chunk with its names
/// fits into a page of 256 KiB.
pub(crate) const GRIDFS_CHUNK_DEFAULT: u32 = 255 << 10;

/// Longest chunk of GridFS: with its names it is a document, which has 16 MiB at most.
pub(crate) const GRIDFS_CHUNK_MAX: u32 = 15 << 20;

/// Capacity in bytes of the command buffer that a connection keeps.
pub(crate) const BUFFER_KEPT: usize = 64 << 10;

/// Shortest time after which an idle connection is closed: the keeper of a pool looks for such ones as often.
pub(crate) const IDLE_MIN: Duration = Duration::from_millis(10);

/// Servers that an error describes, one a line; a replica set seldom has more than seven members.
pub(crate) const DESCRIBED_MAX: usize = 16;

/// Sets of SCRAM keys that a client keeps: the members of a replica set share one, and a change of the
/// password makes another.
pub(crate) const KEYS_KEPT: usize = 8;

/// Sessions that wait for their next use, 40 bytes each: as many as the largest pool has connections. Those that come
/// beyond are forgotten, and the server is not told of their end.
pub(crate) const SESSIONS_KEPT: usize = 1 << 16;

/// Sessions of one command that ends them; the specification of sessions sets it.
pub(crate) const SESSIONS_ENDED_MAX: usize = 10_000;

/// Time to end all sessions of a client at its end: one second, in which a server that is well answers many times. Who waits
/// for the end of the client waits as long.
pub(crate) const SESSIONS_END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a server keeps a session that is not used, unless it says another time: 30 minutes, as MongoDB does by default.
pub(crate) const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// A session is not used again within this time before the server forgets it; the specification of
/// sessions sets it.
pub(crate) const SESSION_MARGIN: Duration = Duration::from_secs(60);

/// Cursors that were dropped and wait for their end at the server. Beyond that many they are left to the
/// server, which ends them after ten minutes.
pub(crate) const ORPHANS_MAX: usize = 1 << 10;

/// The first pause before a cursor asks again that has got nothing, and the longest: a server that answers each question at
/// once gets four of them a second, and what is written is read a quarter of a second later at most.
pub(crate) const EMPTY_PAUSE_FIRST: Duration = Duration::from_millis(1);
pub(crate) const EMPTY_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Servers at which such cursors are ended at a time, each by a task. The others wait for their turn.
pub(crate) const ORPHAN_SERVERS_MAX: usize = 16;

/// Time to end cursors at their server: three seconds, in which a server that is well answers many times. Other cursors of
/// that server, and the end of the client, wait as long.
pub(crate) const ORPHAN_TIMEOUT: Duration = Duration::from_secs(3);

/// Transactions of dropped sessions that are being aborted at a time on a core. Beyond that many they are left to the
/// server, which aborts them after a minute.
pub(crate) const ABORTS_MAX: usize = 1 << 10;

/// Time to abort one of them: three seconds, in which a server that is well answers many times.
pub(crate) const ABORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Default of commands of a pipeline that are under way at a time: sixteen times the rate of one after the other, and
/// what a slow one delays stays short.
pub(crate) const PIPELINE_DEPTH_DEFAULT: usize = 16;

/// Most of them: a line of 100 ms is full with 10,000 a second and 1,000 under way.
pub(crate) const PIPELINE_DEPTH_MAX: usize = 1 << 10;

/// Bytes of the commands under way, unless it is one: a quarter of what a connection queues.
pub(crate) const PIPELINE_BYTES_MAX: usize = 16 << 20;

/// Commands of one pipeline, whose replies are in memory together.
pub(crate) const PIPELINE_COMMANDS_MAX: usize = 1 << 16;

/// Commands that wait for the shared connection of a core: what its deepest use does in 64 round trips.
pub(crate) const MULTIPLEXED_QUEUE_MAX: usize = 1 << 16;

/// Bytes of the replies of one pipeline, or of a shared connection that nobody has taken: 4 KiB for each of the most commands. What comes beyond is not kept.
pub(crate) const PIPELINE_REPLY_BYTES_MAX: usize = 256 << 20;

/// Lowest version of the protocol that a server has to speak: 7, MongoDB 4.0, the oldest whose writes can be
/// tried again.
pub(crate) const WIRE_VERSION_MIN: i32 = 7;

/// Highest version of the protocol whose lowest is known to this client: 28, MongoDB 8.2.
pub(crate) const WIRE_VERSION_MAX: i32 = 28;

/// The first version of the protocol whose servers label their errors: 9, MongoDB 4.4.
pub(crate) const WIRE_VERSION_LABELS: i32 = 9;

/// The first version of the protocol whose servers take a comment with each batch of a cursor: 9, MongoDB 4.4.
pub(crate) const WIRE_VERSION_MORE_COMMENTS: i32 = 9;

/// The first version of the protocol whose servers read of snapshots outside of transactions: 13, MongoDB 5.0.
pub(crate) const WIRE_VERSION_SNAPSHOTS: i32 = 13;

/// Default time in which a server is found that suits an operation, as in MongoDB's other drivers. The election of a
/// primary takes some ten seconds.
pub(crate) const SELECTION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Default of how much farther away than the nearest a server may be; the specification of server selection sets it.
pub(crate) const LOCAL_THRESHOLD_DEFAULT: Duration = Duration::from_millis(15);

/// Least time between two questions to a server how it is, however many operations wait for the answer; the
/// specification of monitoring sets it.
pub(crate) const CHECK_PERIOD_MIN: Duration = Duration::from_millis(500);

/// Answers that a server may give by itself, one after the other, before it is listened to only after a pause of
/// [`CHECK_PERIOD_MIN`]: an election or a reconfiguration has a handful.
pub(crate) const STREAMED_MAX: u32 = 32;

/// Longest answer to the question how a server is: 64 KiB hold all members of the largest replica set with their tags.
/// A monitor keeps what it says.
pub(crate) const HELLO_LEN_MAX: usize = 64 << 10;

/// Bytes that are kept of why a server cannot be used, such as its own words: some lines. They are a part of the error
/// of each operation that waits for it.
pub(crate) const HELLO_ERROR_MAX: usize = 512;

/// Servers of a deployment that a client takes part of, and members that it takes from one list: a replica set has at
/// most 50. Without a bound, one server could name as many as a message holds, and each has a pool and a task.
pub(crate) const SERVERS_MAX: usize = 256;

/// Writes of one command at most: 100,000, which MongoDB announces as `maxWriteBatchSize`. Servers that take fewer get
/// fewer.
pub(crate) const BATCH_WRITES_MAX: usize = 100_000;

/// How often a read, or a write that is numbered, is sent: twice, as the specifications of retries say. Where a time was set
/// for the operation, it is sent until that is over, with pauses that grow to [`EMPTY_PAUSE_MAX`].
pub(crate) const TRIES_MAX: u32 = 2;

/// Default of how often an operation is tried again that an overloaded server has refused; the specification of client
/// backpressure sets it, and the next two.
pub(crate) const ADAPTIVE_RETRIES_DEFAULT: u32 = 2;

/// The bound of the pause before the first such try is twice this, unless the server tells another time. It doubles with
/// each.
pub(crate) const BACKOFF_BASE: Duration = Duration::from_millis(100);

/// The longest pause before a try.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// How long the look-up of a `mongodb+srv://` name may take: the library gives each name server 5 seconds, twice.
#[cfg(feature = "dns")]
pub(crate) const DNS_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest time of a cluster that is kept and told on, in bytes. With its signature it has about 130.
pub(crate) const CLUSTER_TIME_LEN_MAX: usize = 1 << 10;

/// Least time between two look-ups of the servers of a `mongodb+srv://` name; the specification of SRV polling sets it.
#[cfg(feature = "dns")]
pub(crate) const SRV_PERIOD_MIN: Duration = Duration::from_secs(60);

/// Services behind a load balancer whose failures are noted apart. When more have failed, all connections are made anew.
pub(crate) const SERVICES_MAX: usize = 256;

/// Labels of an error that are kept; servers have five.
pub(crate) const LABELS_MAX: usize = 16;
