//! Bounds of HTTP, each with its reason.

use std::time::Duration;

/// A request's head has to be there so long after the connection is ready for it. It bounds idle
/// connections that are kept alive as well: browsers and proxies open another one.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The next piece of a request's body has to be there so long after a handler has asked for it: a peer
/// that sends a byte now and then is cut off by the rate below.
pub(crate) const BODY_STALL: Duration = Duration::from_secs(30);

/// A body has to come at this mean rate at least, in bytes per second, after its first
/// [`BODY_STALL`]: a modem's speed. Below it somebody holds a handler on purpose.
pub(crate) const BODY_RATE_MIN: u64 = 1_000;

/// Bytes of a request's head, fields included: browsers with many cookies send some 8 KiB. hyper
/// keeps a buffer of this size for each connection at most.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;

/// Header fields of a request: proxies add a dozen to the two dozen of browsers.
pub(crate) const FIELDS_MAX: usize = 100;

/// Bytes of a request's body that a handler may read, unless the program says otherwise.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;

/// Bytes of a path with its query: what browsers and proxies take for granted.
pub(crate) const TARGET_BYTES_MAX: usize = 8 << 10;

/// Bytes of a piece of a reply from which on it is counted as kept: hyper keeps sixteen pieces at most, and
/// counting one costs an allocation.
pub(crate) const REPLY_COUNTED_MIN: usize = 4 << 10;

/// Connections that a client keeps open and unused for each server.
pub(crate) const IDLE_PER_SERVER_MAX: usize = 32;

/// Servers that a client keeps unused connections for: who asks more of them in turn pays a handshake.
pub(crate) const IDLE_SERVERS_MAX: usize = 64;

/// Less than the shortest keep-alive that is common among servers, which is 5 s.
pub(crate) const IDLE_KEPT: Duration = Duration::from_secs(4);

/// A client's request and its reply's head, unless the program says otherwise: as for calls.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a WebSocket message that is received, unless the program says otherwise: far more than people
/// and services send in one piece, and a thousand peers that each withhold the end of one hold a GiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Silence after which a WebSocket's peer is pinged, unless the program says otherwise: half of what proxies
/// commonly let pass before they forget a connection.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);

/// Time for the answer to a ping, unless the program says otherwise: as browsers and libraries wait.
pub(crate) const PONG_WAIT: Duration = Duration::from_secs(20);

/// Time for the peer of a WebSocket to answer our Close frame: some round trips of the slowest networks.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Unsent bytes above which pings are not answered any more: their sender does not read what it asks for.
pub(crate) const PONG_QUEUE_MAX: usize = 64 << 10;

/// Bytes from which on a WebSocket message is sent from where it is, behind its head: below, copying it
/// costs less than one more segment.
pub(crate) const MESSAGE_BYTES_MOVED: usize = 16 << 10;

/// Memory in bytes that a core keeps to write WebSocket frames with.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// Bytes of a file that are read at a time: a system call for each costs little beside copying so many.
pub(crate) const FILE_PIECE_BYTES: usize = 32 << 10;

/// Unsent bytes at which a body that comes piece by piece waits for its reader. With the piece that hyper has
/// in hand, a thousand readers who do not read hold 100 MiB; and a fast one finds two pieces there while the
/// next is read.
pub(crate) const STREAM_HIGH_WATER: usize = 64 << 10;

/// Unsent bytes below which it goes on.
pub(crate) const STREAM_LOW_WATER: usize = 32 << 10;

/// Age at which a file's tag is strong: two changes within one tick of the file system's clock, which ticks every
/// second at worst, leave the same time behind.
pub(crate) const TAG_STRONG_AFTER: Duration = Duration::from_secs(2);
