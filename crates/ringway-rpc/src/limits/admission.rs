//! Bounds of what a server takes on, and of its end.

use std::time::Duration;

/// How long a drain may take before the log names the methods that it waits for: most calls are over by then.
pub(crate) const DRAIN_TOLD_AFTER: Duration = Duration::from_secs(1);
/// The longest pause between two such lines, which double: a drain without a limit may take hours.
pub(crate) const DRAIN_TOLD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Methods that such a line names: who reads it looks for the one that does not end.
pub(crate) const DRAIN_METHODS_TOLD: usize = 8;

/// Memory of a request over HTTP/2 that is no call of gRPC, beside its fields and its content: its task, the calls that it
/// may make and its stream. An open stream of Connect takes that much, a call that waits for its body 21 KB; a test
/// measures both.
pub(crate) const GUEST_COST: usize = 27 * 1024;
/// Such requests that a core begins to answer in one turn, and ends when their connections have ended: a millisecond's
/// worth. The others wait.
pub(crate) const GUESTS_PER_TURN: usize = 32;
/// What the head of such a request counts among the bytes that a connection and a core take in at once, whatever its
/// length: it costs as much time as that many bytes of calls.
pub(crate) const GUEST_INTAKE_BYTES: usize = 1_024;
/// Memory of metadata from which on it counts among the unread bytes while its call waits: less is a part of what
/// `in_flight_max` allows for each call.
pub(crate) const METADATA_COUNTED_MIN: usize = 2 * 1024;
/// Memory of an entry of metadata beside its bytes: the allocations of its key and its value.
pub(crate) const METADATA_ENTRY_COST: usize = 96;
/// Divisor of the limit of unread bytes that gives how many of them there may be while messages are decompressed for
/// requests over HTTP: a few bytes may become a thousand times as many.
pub(crate) const INFLATED_SHARE: usize = 4;

/// Peak of what a core keeps, in bytes, after which it gives memory back: below it, looking through the heap is not worth
/// it.
pub(crate) const WAVE_BYTES_MIN: usize = 32 * 1024 * 1024;
/// Part of that peak that is kept when the wave is over.
pub(crate) const WAVE_IS_OVER_SHARE: usize = 4;
/// How long a core waits then: streams and connections that have ended free what they keep for the next ones within a
/// second, and another wave may come.
pub(crate) const WAVE_REST: Duration = Duration::from_secs(2);

/// Bytes of replies that wait for the windows of an HTTP/2 client, or for their turn, from which on its next calls are
/// not begun: eight messages of the longest size by default, and many times what a path with large windows has under
/// way, so that none of its calls waits for that. The connection is read on, since its client opens windows by that.
pub(crate) const REPLIES_WAITING_MAX: usize = 32 * 1024 * 1024;
/// The same below which they are begun again: half of it, so that a client that reads never runs dry, and calls are
/// not stopped and begun one by one.
pub(crate) const REPLIES_WAITING_LOW: usize = REPLIES_WAITING_MAX / 2;
/// Bytes of requests that wait for that on one connection, exceeded by less than one message, above which further calls
/// are refused: as much as messages may be decompressed to that are unread.
pub(crate) const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
