//! Every bound of the network library, with its reason.

use std::time::Duration;

/// Connections of one server unless it says otherwise: far above a default descriptor limit, so
/// that the kernel's limit is met first, and below what would exhaust memory (10,000 need 10 MiB).
pub(crate) const CONNECTIONS_MAX: usize = 1_000_000;

/// Shortest quiet time before a keepalive probe, and between two: the kernel's unit.
pub(crate) const KEEPALIVE_QUIET_MIN: Duration = Duration::from_secs(1);

/// Longest quiet time before a keepalive probe: the kernel's largest, nine hours.
pub(crate) const KEEPALIVE_QUIET_MAX: Duration = Duration::from_secs(32_767);

/// Keepalive probes without an answer after which a peer counts as gone: some may get lost.
pub(crate) const KEEPALIVE_PROBES: u32 = 5;

/// How much longer than the least loaded core's list of connections another one's may be before
/// it gives new connections away: handing over costs a message between cores.
pub(crate) const HANDOFF_SLACK_MIN: usize = 2;

/// The same as a fraction of the least loaded core's connections: one eighth.
pub(crate) const HANDOFF_SLACK_SHIFT: u32 = 3;

/// How long connections may take to end after a shutdown was asked for. Service managers commonly
/// kill after 10 to 90 seconds.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Turns that handlers get after their connections were aborted, to see the error and clean up.
pub(crate) const ABORTED_TURNS: usize = 8;

/// Tries to find one port that is free for every listener that shares it.
pub(crate) const SHARED_PORT_TRIES: usize = 32;

/// Connections of one core: 20 bits of the 64 of a connection's id. 32 tell how often the slot was
/// used, so that an id never comes again.
pub(crate) const SLOTS_MAX: usize = 1 << 20;

/// Cores of all servers of a process: the other 12 bits, of which one value means that there is no
/// server.
pub(crate) const SERVER_CORES_MAX: usize = (1 << 12) - 1;

/// Reuses of a slot after which the number of its core is not given to another server: one that gets
/// it can use each of its slots two billion times.
pub(crate) const CORE_NUMBER_REUSE_MAX: u32 = 1 << 31;

/// Bits of an IPv6 address that are taken for one address: a /64 is one network, and what a single
/// customer is given at least.
pub(crate) const IPV6_PREFIX_LEN: u8 = 64;

/// Parts of the table of connections by address, each with a lock: more than cores that accept at the
/// same time will often be.
pub(crate) const PER_ADDRESS_PARTS: usize = 32;

/// TLS handshakes under way on one core: an honest client takes some round trips, so this admits
/// thousands a second from anywhere, and those that only hold places cost 10 MiB.
pub(crate) const HANDSHAKES_MAX: usize = 512;

/// The part of them that is kept for those whose first message was not computed yet, as one of so many: a
/// client's first bytes come right behind its connect, so they need their places for a short while. The
/// others wait for a client's answer, under a flood of hellos until as many more were computed.
pub(crate) const HANDSHAKES_NEW_FRACTION: usize = 4;

/// Steps of TLS handshakes that a core takes in one turn; a step is what a client's message, or an
/// encrypted record, lets the server compute. Each costs up to a millisecond of computing (a
/// signature, some certificates), for which all connections of the core wait, so a flood of clients must
/// not have hundreds in a row. More than one, as a turn has a price of its own.
pub(crate) const HANDSHAKE_STEPS_PER_TURN: u32 = 4;

/// Steps of one handshake that go before the first ones of others: more than a client takes whose messages
/// come one by one. One that takes more, as by records of a byte, waits in line with newcomers.
pub(crate) const HANDSHAKE_STEPS_PREFERRED: u32 = 6;

/// How long the first bytes of a new connection may be on their way when the server drains: its peer
/// sends them with or right behind its last segment of the handshake.
pub(crate) const FIRST_BYTES_WAIT: Duration = Duration::from_millis(500);

/// How long a TLS handshake that has begun may take when the server drains: some round trips.
pub(crate) const HANDSHAKE_DRAIN_WAIT: Duration = Duration::from_secs(1);

/// How long the drain waits for the program's own shutdown hooks before it starts: time for a change of
/// state or one request to somebody near.
pub(crate) const SHUTDOWN_HOOKS_WAIT: Duration = Duration::from_secs(1);

/// How long clients whose handshake with the kernel is half done have to finish it when a listener is about
/// to close: a round trip within a data centre.
pub(crate) const LAST_CONNECTS_WAIT: Duration = Duration::from_millis(2);

/// Connections that a listener takes from the kernel before it closes: all of the queue, which the
/// kernel bounds by `somaxconn`, usually 4,096.
pub(crate) const LAST_ACCEPTS_MAX: usize = 65_536;

/// How long a listener that is about to close, and has no descriptor for those who wait there, leaves the
/// connections that drain before it looks again.
pub(crate) const LAST_LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Turns in which the accepts that were under way then are taken in.
pub(crate) const LAST_ACCEPT_TURNS: usize = 2;

/// Datagrams that a server still handles when it stops: all that the runtime holds of a socket.
pub(crate) const LAST_DATAGRAMS_MAX: usize = 1_024;

/// Datagrams taken over that came between `bind` and the start: more than the kernel's default buffer
/// holds.
pub(crate) const EARLY_DATAGRAMS_MAX: usize = 1_024;

/// The largest datagram: what the length field of IP leaves.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Least time between two messages of one kind in a log that peers can bring about at will.
pub(crate) const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Addresses of one name that a server listens on: a name of a machine has a few.
pub(crate) const ADDRESSES_BOUND_MAX: usize = 16;

/// How long an address in use is tried again: sockets of a process that was killed are closed some
/// milliseconds after its end, or later if the machine is busy.
pub(crate) const BIND_WAIT: Duration = Duration::from_secs(1);

/// The pause between two tries.
pub(crate) const BIND_PAUSE: Duration = Duration::from_millis(5);

/// How long the lock of a directory is waited for in which a Unix socket is to be made: holding it
/// takes some system calls.
pub(crate) const PATH_LOCK_WAIT: Duration = Duration::from_millis(250);

/// The pause between two looks at it.
pub(crate) const PATH_LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Connections that the kernel completes on a Unix path before we accept them; it caps this by
/// `somaxconn`.
pub(crate) const UNIX_BACKLOG: i32 = 4_096;

/// Least bytes that a high-water mark may have: below it every message is pressure.
pub(crate) const HIGH_WATER_MIN: usize = 1_024;

/// Longest host name in an address: the bound of DNS.
pub(crate) const HOST_LEN_MAX: usize = 253;

/// Names looked up at once: a quarter of the blocking pool's threads, so that silent name servers,
/// which hold each for half a minute, leave the others to the program.
pub(crate) const LOOK_UPS_AT_ONCE: usize = 8;

/// Names that wait to be looked up: a core's clients all at once. Whoever comes behind that is told
/// so instead of waiting for an answer that would come too late.
pub(crate) const LOOK_UPS_WAITING_MAX: usize = 1_024;

/// Longest path of a Unix socket: the kernel's field of 108 bytes with its end mark.
pub(crate) const UNIX_PATH_LEN_MAX: usize = 107;

/// Time for a whole TLS handshake: several round trips around the world, with one repeat each.
pub(crate) const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Plaintext gathered into one view before it is handed over; what the records in work bring may
/// still come on top.
pub(crate) const TLS_PLAIN_BYTES: usize = 32 * 1024;

/// Plaintext in one view: the above, and the largest record.
pub(crate) const TLS_PLAIN_BYTES_MAX: usize = 64 * 1024;

/// Plaintext encrypted at a time: one full record, so that rustls never holds more.
pub(crate) const TLS_WRITE_BYTES: usize = 16 * 1024;

/// Records of a TLS 1.2 session that are left to what is not the program's: the end of the handshake
/// and alerts.
pub(crate) const TLS_RECORDS_SPARED: u64 = 16;

/// Bytes of encoded frames that are gathered before they are queued on the connection:
/// one send chunk of the runtime. More at a time would only be copied later.
pub(crate) const SCRATCH_BYTES_QUEUED: usize = 16 * 1024;

/// Bytes of memory that a core keeps to encode frames with. Longer frames get memory of their own,
/// which moves to the send queue instead of being copied.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Bytes that one `poll_write` accepts: a writer that offers more is not ahead of the high-water
/// mark by more than this.
pub(crate) const POLL_WRITE_BYTES_MAX: usize = 256 * 1024;

/// Time for one address to answer: three SYNs of the kernel (at 0, 1 and 3 s) fit.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of one connect: with the waits between them a refused one takes under a second.
pub(crate) const CONNECT_ATTEMPTS_MAX: u32 = 4;

/// Attempts before a reconnecting client gives up: with its waits, three minutes; a server's
/// restart or a failover is over by then.
pub(crate) const RECONNECT_ATTEMPTS_MAX: u32 = 20;

/// The first wait after a failed attempt: a restarting local server often is back by then.
pub(crate) const BACKOFF_DELAY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between attempts.
pub(crate) const BACKOFF_DELAY_MAX: Duration = Duration::from_secs(10);

/// A connection that lived this long counts as a success: as long as the longest wait.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How long an address of a name is tried alone before the next one is tried beside it: above most
/// round trips, and a delay that people hardly notice (RFC 8305, section 5).
pub(crate) const ADDRESS_HEAD_START: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried in one attempt; a name may have hundreds.
pub(crate) const ADDRESSES_TRIED_MAX: usize = 16;

/// How long the supervisor waits for the cores to cut their connections off before it stops them.
pub(crate) const ABORT_WAIT: Duration = Duration::from_secs(1);

/// How long it then waits for them to end: above the six seconds (two for an end in order, two after a
/// reset, two of its driver) that the runtime takes at most when the kernel is slow to give things back.
/// A core that is kept by its handler does not end at all.
pub(crate) const END_WAIT: Duration = Duration::from_secs(7);
