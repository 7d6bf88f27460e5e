//! Every bound of this crate, with its reason.

/// Bytes of one read: four 16 KiB messages, and still inside the L2 cache of any server CPU.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Bytes of one read that throws its data away. Larger than `READ_BYTES` since a one-way sender
/// fills the whole receive window, and fewer calls then move more bytes.
pub(crate) const DISCARD_BYTES: usize = 256 * 1024;

/// Events taken by one `epoll_wait`: enough to spread its cost, few enough to stay in L1.
pub(crate) const EVENTS_PER_WAIT: usize = 256;

/// Length of the accept queue, the kernel's own default ceiling (`net.core.somaxconn`).
pub(crate) const ACCEPT_QUEUE: i32 = 4096;

/// Submission entries of a ring: one turn of a thousand busy connections.
pub(crate) const RING_SUBMISSIONS: u32 = 1024;

/// Completion entries of a ring: one outstanding operation for each of 16,000 connections, so that
/// the overflow list of the kernel is not in use.
pub(crate) const RING_COMPLETIONS: u32 = 16 * 1024;

/// Connections of the client: what one source address offers in ephemeral ports, with room.
pub(crate) const CLIENT_CONNECTIONS_MAX: usize = 28_000;

/// Largest message of the client.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Seconds allowed for replies after the last request was sent.
pub(crate) const DRAIN_SECONDS_MAX: u64 = 5;

/// Largest latency recorded, in nanoseconds; slower ones count as this.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Calls in flight on one connection: beyond what any server answers within the drain.
pub(crate) const DEPTH_MAX: usize = 16 * 1024;

/// Messages of one stream, so that the drain is long enough for its end.
pub(crate) const FRAMES_MAX: usize = 1024 * 1024;

/// Unanswered messages of one stream: all of the longest stream that is short.
pub(crate) const WINDOW_MAX: usize = 16 * 1024;

/// HTTP/2 flow-control window of a stream and of a connection, in bytes: one of the largest
/// messages and more, so that no run waits for a window update.
pub(crate) const HTTP2_WINDOW_BYTES: u32 = 32 * 1024 * 1024;

/// Largest HTTP/2 frame: a message of 64 KiB and its prefix go as one.
pub(crate) const HTTP2_FRAME_BYTES: u32 = 128 * 1024;

/// Calls in flight that a server accepts on one connection; more than the client's
/// `DEPTH_MAX`.
pub(crate) const CALLS_PER_CONNECTION_MAX: usize = 64 * 1024;

/// Largest frame that the HTTP/2 floor accepts: the most that a client may send by default.
pub(crate) const FLOOR_FRAME_BYTES: u32 = 16 * 1024;

/// Connection window of the HTTP/2 floor, returned by halves: so large that no client waits for it.
pub(crate) const FLOOR_WINDOW_BYTES: u32 = 1 << 30;

/// Largest text of a JSON-RPC server and client: the largest message in base64, with room for what is around it.
pub(crate) const JSON_MESSAGE_BYTES_MAX: u32 = MESSAGE_BYTES_MAX as u32 / 3 * 4 + 4096;

/// Largest message of an RPC server and client, with room for what frames it.
pub(crate) const RPC_MESSAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 4096;
