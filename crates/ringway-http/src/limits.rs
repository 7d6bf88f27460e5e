//! Bounds of HTTP, each with its reason.

use std::time::Duration;

/// Time for a request's head, counted from when the connection is ready for it. It also bounds idle
/// connections: browsers and proxies open new ones.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for the next piece of a request's body, counted from when a handler asks for it. The rate below stops a peer
/// that sends a byte now and then.
pub(crate) const BODY_STALL: Duration = Duration::from_secs(30);

/// The least mean rate of a body in bytes per second, after its first
/// [`BODY_STALL`]: the speed of a modem. A slower client occupies a handler on purpose.
pub(crate) const BODY_RATE_MIN: u64 = 1_000;

/// Bytes of a request's head with its fields: browsers with many cookies send some 8 KiB. hyper
/// keeps at most one buffer of this size per connection.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;

/// Header fields of a request: proxies add a dozen to the two dozen of browsers.
pub(crate) const FIELDS_MAX: usize = 100;

/// Default for the bytes of a request's body that a handler may read.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;

/// Bytes of a body that are read and dropped because its handler has answered without them: as much as Go's server
/// reads. To send more than that again over a new connection costs less than to receive it for nothing.
pub(crate) const LEFT_OVER_BYTES_MAX: u64 = 256 << 10;

/// Time for them: some round trips of slow networks. The answer waits meanwhile.
pub(crate) const LEFT_OVER_WAIT: Duration = Duration::from_secs(1);

/// Bytes of a path with its query: as many as browsers and proxies support.
pub(crate) const TARGET_BYTES_MAX: usize = 8 << 10;

/// Bytes from which a piece of a reply is counted as held: hyper keeps at most sixteen pieces, and
/// counting one costs an allocation.
pub(crate) const REPLY_COUNTED_MIN: usize = 4 << 10;

/// Bytes from which a part of a reply is queued without a copy: below, a copy costs less than another segment.
pub(crate) const PIECE_LENT_MIN: usize = 16 << 10;

/// Bytes of the longest piece that is queued so. Its last part pins all of it, and counts by its own length.
pub(crate) const PIECE_LENT_MAX: usize = 256 << 10;

/// Bytes of a whole request body whose way into the connection's queue is watched: a shorter one is there with its head, since
/// a connection that takes a request has an empty queue.
pub(crate) const WHOLE_WATCHED_MIN: usize = 64 << 10;

/// Idle connections that a client keeps for each server.
pub(crate) const IDLE_PER_SERVER_MAX: usize = 32;

/// Servers for which a client keeps idle connections: one that calls more of them in turn pays for handshakes.
pub(crate) const IDLE_SERVERS_MAX: usize = 64;

/// Time after which an idle connection is not reused: less than 5 s, the shortest keep-alive common among servers.
pub(crate) const IDLE_KEPT: Duration = Duration::from_secs(4);

/// Default time for a request and its reply's head: as for calls.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Default for the bytes of a received WebSocket message: far more than people
/// and services send in one message; a thousand peers that withhold the end of one hold a GiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Default silence after which a WebSocket's peer is pinged: half the time after which proxies
/// commonly forget a connection.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(30);

/// Default time for the answer to a ping: as long as browsers and libraries wait.
pub(crate) const PONG_WAIT: Duration = Duration::from_secs(20);

/// Time for the peer of a WebSocket to answer our Close frame: some round trips of the slowest networks.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Unsent bytes above which pings are not answered: the peer does not read the answers.
pub(crate) const PONG_QUEUE_MAX: usize = 64 << 10;

/// Bytes from which a WebSocket message is sent without a copy, behind its head: below, a copy
/// costs less than another segment.
pub(crate) const MESSAGE_BYTES_MOVED: usize = 16 << 10;

/// Bytes of memory that a core keeps for writing WebSocket frames.
pub(crate) const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// Bytes of a file read at a time. Each piece costs a turn of the core: with 128 KiB a byte costs a fifth less CPU time than
/// with 32 KiB. 256 KiB would save 7 % more, and double what a stalled reader holds. (The figures are in `docs/http.md`.)
pub(crate) const FILE_PIECE_BYTES: usize = 128 << 10;

/// Unsent bytes at which a streamed body waits for its reader. A stalled reader of a file holds half of it and a piece
/// behind that: a thousand of them hold 160 MiB. A fast reader has a piece in the kernel while the next is read.
pub(crate) const STREAM_HIGH_WATER: usize = 64 << 10;

/// Unsent bytes below which a streamed body continues.
pub(crate) const STREAM_LOW_WATER: usize = 32 << 10;

/// Age at which a file's tag is strong: two changes within one tick of the file system's clock, at worst a
/// second, leave the same time.
pub(crate) const TAG_STRONG_AFTER: Duration = Duration::from_secs(2);
