//! Every bound of the client, with its reason.

use std::time::Duration;

/// Time for a unary call whose method and caller name none: a user has left by then.
pub(super) const UNARY_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls of one pool that wait for room. Each costs about 100 bytes, and waits longer than any
/// deadline should be where so many are before it.
pub(super) const WAITING_CALLS_MAX: usize = 65_536;

/// Bytes of a reply that a server may send before it is granted more: what a server accepts of a
/// request by default.
pub(super) const REPLY_CREDIT: u32 = 1024 * 1024;

/// A request up to this size is copied into the connection's output; a larger one is shared with
/// it. Copying so much costs about as much as counting references.
pub(super) const REQUEST_COPY_BYTES_MAX: usize = 4 * 1024;

/// Memory kept to encode requests and metadata in. More is given back to the allocator.
pub(super) const SCRATCH_BYTES_KEPT: usize = 64 * 1024;

/// Encoded requests up to this size are copied out of the memory above, into memory of just their
/// size; longer ones take that memory with them.
pub(super) const SCRATCH_COPY_BYTES_MAX: usize = 4 * 1024;

/// Views that one connection takes in before the other tasks of its core run: some hundred
/// kilobytes.
pub(super) const VIEWS_PER_TURN: usize = 16;

/// Bytes of one connection that may wait for the kernel: enough to keep it busy, and little enough
/// for a small call not to wait behind them.
pub(super) const OUTPUT_QUEUED_MAX: usize = 256 * 1024;

/// Connections to one host from one core, if nothing else is said: each carries a thousand calls.
pub(super) const CONNECTIONS_MAX: usize = 4;

/// Servers of one client: each call looks at all of them, and each core connects to all.
pub(super) const HOSTS_MAX: usize = 1_024;

/// How long a connection beyond the least number is kept without a call.
pub(super) const SPARE_CONNECTION_KEPT: Duration = Duration::from_secs(30);

/// The first wait after a failed attempt to connect: a restarting local server often is back.
pub(super) const RECONNECT_DELAY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between attempts to connect.
pub(super) const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(10);

/// Time for one attempt to connect: three SYNs of the kernel (at 0, 1 and 3 s) fit.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of one call: a third one seldom helps where two have failed.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// Longest request, in bytes, that is sent again: more would double real load.
pub(super) const REPLAY_BYTES_MAX: usize = 256 * 1024;
