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

/// Seconds that replies may take after the last request was sent.
pub(crate) const DRAIN_SECONDS_MAX: u64 = 5;

/// Largest latency told apart, in nanoseconds; anything slower counts as this.
pub(crate) const LATENCY_NS_MAX: u64 = 60_000_000_000;
