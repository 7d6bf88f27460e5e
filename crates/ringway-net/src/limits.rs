//! Every bound of the network library, with its reason.

use std::time::Duration;

/// Default limit of connections of one server: far above a default descriptor limit, so that the
/// kernel's limit is met first, and below what would exhaust memory (10,000 need 10 MiB).
pub(crate) const CONNECTIONS_MAX: usize = 1_000_000;

/// Shortest idle time before a keepalive probe, and between two: the kernel counts in seconds.
pub(crate) const KEEPALIVE_QUIET_MIN: Duration = Duration::from_secs(1);

/// Longest idle time before a keepalive probe: the kernel's maximum, nine hours.
pub(crate) const KEEPALIVE_QUIET_MAX: Duration = Duration::from_secs(32_767);

/// Unanswered keepalive probes after which a peer counts as gone: a few may get lost.
pub(crate) const KEEPALIVE_PROBES: u32 = 5;

/// How many more connections than the least loaded core a core may have before it hands new ones
/// over: a handover costs a message between cores.
pub(crate) const HANDOFF_SLACK_MIN: usize = 2;

/// The same as a fraction of the least loaded core's connections: one eighth.
pub(crate) const HANDOFF_SLACK_SHIFT: u32 = 3;

/// Default time for connections to end after a shutdown was requested. Service managers commonly
/// kill after 10 to 90 seconds.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Turns that handlers get after their connections were aborted, to see the error and clean up.
pub(crate) const ABORTED_TURNS: usize = 8;

/// Attempts to find one port that is free for every listener that shares it.
pub(crate) const SHARED_PORT_TRIES: usize = 32;

/// Connections of one core: 20 of the 64 bits of a connection's id. 32 bits count the uses of the
/// slot, so that an id never repeats.
pub(crate) const SLOTS_MAX: usize = 1 << 20;

/// Cores of all servers of a process: the other 12 bits. One value means that there is no server.
pub(crate) const SERVER_CORES_MAX: usize = (1 << 12) - 1;

/// Uses of a slot after which its core's number is not given to another server. The next server
/// with that number can still use each slot two billion times.
pub(crate) const CORE_NUMBER_REUSE_MAX: u32 = 1 << 31;

/// Prefix of an IPv6 address that counts as one address: a /64 is one network, the least that a
/// single customer gets.
pub(crate) const IPV6_PREFIX_LEN: u8 = 64;

/// Shards of the table of connections by address, each with a lock: more than the cores that often
/// accept at the same time.
pub(crate) const PER_ADDRESS_PARTS: usize = 32;

/// TLS handshakes under way on one core: an honest client takes some round trips, so this admits
/// thousands a second from anywhere, and clients that only hold slots cost 10 MiB.
pub(crate) const HANDSHAKES_MAX: usize = 512;

/// One in this many handshake slots is reserved for handshakes whose first message was not
/// processed yet. A client's first bytes follow right behind its connect, so these slots are held
/// briefly. The other slots wait for a client's answer; in a flood of hellos, until as many more
/// were processed.
pub(crate) const HANDSHAKES_NEW_FRACTION: usize = 4;

/// Steps of TLS handshakes that a core takes in one turn. A step is the computation for a client's
/// message, or for an encrypted record. Each takes up to a millisecond (a signature, some
/// certificates), for which all connections of the core wait, so a flood of clients must not get
/// hundreds in a row. It is more than one because a turn has a cost of its own.
pub(crate) const HANDSHAKE_STEPS_PER_TURN: u32 = 4;

/// Steps of one handshake that have priority over the first steps of others: more than a client
/// takes that sends whole messages. A client that takes more, for example by records of one byte,
/// waits in line with new ones.
pub(crate) const HANDSHAKE_STEPS_PREFERRED: u32 = 6;

/// How long a draining server waits for the first bytes of a new connection: its peer sends them
/// with or right behind the last segment of the TCP handshake.
pub(crate) const FIRST_BYTES_WAIT: Duration = Duration::from_millis(500);

/// How long a TLS handshake may still take when the server drains: some round trips.
pub(crate) const HANDSHAKE_DRAIN_WAIT: Duration = Duration::from_secs(1);

/// How long the drain waits for the program's shutdown hooks before it starts: time for a change of
/// state or one request to a nearby service.
pub(crate) const SHUTDOWN_HOOKS_WAIT: Duration = Duration::from_secs(1);

/// How long a closing listener waits for clients whose TCP handshake is half done: a round trip
/// within a data centre.
pub(crate) const LAST_CONNECTS_WAIT: Duration = Duration::from_millis(2);

/// Connections that a listener takes from the kernel before it closes: the whole queue, which the
/// kernel bounds by `somaxconn`, usually 4,096.
pub(crate) const LAST_ACCEPTS_MAX: usize = 65_536;

/// How long a closing listener that has no descriptors for the queued connections waits for
/// draining connections to free some.
pub(crate) const LAST_LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Turns in which a closing listener still takes in accepts that were under way.
pub(crate) const LAST_ACCEPT_TURNS: usize = 2;

/// Datagrams that a stopping server still handles: all that the runtime holds for a socket.
pub(crate) const LAST_DATAGRAMS_MAX: usize = 1_024;

/// Datagrams taken over that arrived between `bind` and the start: more than the kernel's default
/// buffer holds.
pub(crate) const EARLY_DATAGRAMS_MAX: usize = 1_024;

/// Size of a buffer for any datagram: the length field of IP allows 65,535 bytes.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Minimum time between two log messages of one kind that peers can trigger at will.
pub(crate) const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Addresses of one name that a server listens on: the name of a machine has a few.
pub(crate) const ADDRESSES_BOUND_MAX: usize = 16;

/// How long binding an address that is in use is retried: the sockets of a killed process are
/// closed some milliseconds after its end, or later if the machine is busy.
pub(crate) const BIND_WAIT: Duration = Duration::from_secs(1);

/// The pause between two attempts to bind.
pub(crate) const BIND_PAUSE: Duration = Duration::from_millis(5);

/// How long to wait for the lock of a directory in which a Unix socket is made: it is held for some
/// system calls.
pub(crate) const PATH_LOCK_WAIT: Duration = Duration::from_millis(250);

/// The pause between two attempts to take the directory's lock.
pub(crate) const PATH_LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Connections that the kernel completes on a Unix path before we accept them; the kernel caps this
/// by `somaxconn`.
pub(crate) const UNIX_BACKLOG: i32 = 4_096;

/// Minimum of a high-water mark: below it every message would be backpressure.
pub(crate) const HIGH_WATER_MIN: usize = 1_024;

/// Longest host name in an address: the bound of DNS.
pub(crate) const HOST_LEN_MAX: usize = 253;

/// Names looked up at once: a quarter of the blocking pool's threads, so that unresponsive name
/// servers, which block a thread for half a minute each, leave the others to the program.
pub(crate) const LOOK_UPS_AT_ONCE: usize = 8;

/// Names that wait to be looked up: all clients of a core at once. A further look-up fails at once
/// instead of waiting for an answer that would come too late.
pub(crate) const LOOK_UPS_WAITING_MAX: usize = 1_024;

/// Longest path of a Unix socket: the kernel's field of 108 bytes, less the terminating zero.
pub(crate) const UNIX_PATH_LEN_MAX: usize = 107;

/// Time for a whole TLS handshake: several round trips around the world, each with one
/// retransmission.
pub(crate) const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Plaintext gathered into one view before it is handed over; the records in progress may exceed
/// it.
pub(crate) const TLS_PLAIN_BYTES: usize = 32 * 1024;

/// Maximum of plaintext in one view: `TLS_PLAIN_BYTES` and the largest record.
pub(crate) const TLS_PLAIN_BYTES_MAX: usize = 64 * 1024;

/// Plaintext encrypted at a time: one full record, so that rustls never buffers more.
pub(crate) const TLS_WRITE_BYTES: usize = 16 * 1024;

/// Records of a TLS 1.2 session that are reserved for the end of the handshake and alerts.
pub(crate) const TLS_RECORDS_SPARED: u64 = 16;

/// Bytes of encoded frames gathered before they are queued on the connection: one send chunk of the
/// runtime. More would only be copied later.
pub(crate) const SCRATCH_BYTES_QUEUED: usize = 16 * 1024;

/// Bytes of memory that a core keeps to encode frames with. Longer frames get their own memory,
/// which moves to the send queue instead of being copied.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Bytes that one `poll_write` accepts: a writer exceeds the high-water mark by at most this.
pub(crate) const POLL_WRITE_BYTES_MAX: usize = 256 * 1024;

/// Time for one address to answer: three SYNs of the kernel (at 0, 1 and 3 s) fit.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of one connect: if each is refused, all take under a second with the pauses between
/// them.
pub(crate) const CONNECT_ATTEMPTS_MAX: u32 = 4;

/// Attempts before a reconnecting client gives up: their pauses take one to two minutes, within which a
/// server's restart or a failover is over.
pub(crate) const RECONNECT_ATTEMPTS_MAX: u32 = 20;

/// The first pause after a failed attempt: a restarting local server is often back by then.
pub(crate) const BACKOFF_DELAY_FIRST: Duration = Duration::from_millis(100);

/// The longest pause between attempts.
pub(crate) const BACKOFF_DELAY_MAX: Duration = Duration::from_secs(10);

/// A connection that lived this long resets the back-off: as long as the longest pause.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How long an address of a name is tried alone before the next one is tried in parallel: above
/// most round trips, and hardly noticeable (RFC 8305, section 5).
pub(crate) const ADDRESS_HEAD_START: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried in one attempt; a name may have hundreds.
pub(crate) const ADDRESSES_TRIED_MAX: usize = 16;

/// How long the supervisor waits for the cores to abort their connections before it stops them.
pub(crate) const ABORT_WAIT: Duration = Duration::from_secs(1);

/// How long the supervisor then waits for the cores to end: more than the six seconds that the
/// runtime takes at most when the kernel is slow (two for an orderly end, two after a reset, two
/// for its driver). A core whose handler blocks does not end at all.
pub(crate) const END_WAIT: Duration = Duration::from_secs(7);

/// How often the kernel is asked whether a peer has gone whose bytes wait unread: what is done for it goes on in vain
/// for that long, and each answer is a system call.
pub(crate) const PEER_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// More steps than tokio lets a task take in one poll, which are 128 today: what can take as many is not
/// polled by tokio.
pub(crate) const TOKIO_BUDGET_MAX: usize = 1_024;

/// How long a name server that a program names may take for one attempt, of two: it is near.
#[cfg(feature = "dns")]
pub(crate) const DNS_SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Questions to name servers that have not begun, one for each client.
#[cfg(feature = "dns")]
pub(crate) const DNS_QUESTIONS_MAX: usize = 1_024;

/// Connections that the kernel completes for a core that listens again after it hung; it caps this by `somaxconn`. As
/// the runtime has it for listeners.
pub(crate) const BACKLOG: i32 = 4_096;
