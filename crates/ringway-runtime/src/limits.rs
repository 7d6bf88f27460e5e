//! Every bound of the runtime, with its reason.

use std::time::Duration;

/// A receive buffer: one message of 16 KiB and a header in one completion. Smaller ones split the
/// message and cost a second completion; larger ones leave the cache sooner.
pub(crate) const MESSAGE_BUFFER_BYTES: usize = 17 * 1024;

/// A receive buffer for streams that fill every buffer: fewer completions per byte, and still a
/// few of them fit into a second-level cache.
pub(crate) const BULK_BUFFER_BYTES: usize = 128 * 1024;

/// Receive buffers of a core, 68 MiB of address space; memory is touched only in a burst.
pub(crate) const MESSAGE_BUFFERS: u16 = 4_096;

/// Bulk buffers of a core, 32 MiB of address space.
pub(crate) const BULK_BUFFERS: u16 = 256;

/// Places in the kernel's ring of message buffers; at most this many are lent at once.
pub(crate) const MESSAGE_RING_ENTRIES: u16 = 1_024;

/// Places in the kernel's ring of bulk buffers.
pub(crate) const BULK_RING_ENTRIES: u16 = 64;

/// Message buffers kept lent. The kernel walks its ring in order, so a long ring leaves the cache;
/// a pass of the loop receives about forty times (the kernel's cap on deferred work).
pub(crate) const HOT_BUFFERS: usize = 64;

/// Bulk buffers kept lent: 1 MiB, the size of a second-level cache.
pub(crate) const HOT_BULK_BUFFERS: usize = 8;

/// Submission entries: several turns' worth; a full queue is handed over early.
pub(crate) const SUBMISSIONS: u32 = 256;

/// Completion entries at least; an overflow would end every multishot operation.
pub(crate) const COMPLETIONS_MIN: u32 = 4_096;

/// Bytes of one send chunk: what small replies of one turn are gathered into.
pub(crate) const SEND_CHUNK_BYTES: usize = 16 * 1024;

/// Spare send chunks kept by a core, 4 MiB; more are given back to the allocator.
pub(crate) const SPARE_CHUNKS_MAX: usize = 256;

/// How long the end of a core waits for operations that the kernel has yet to complete.
pub(crate) const TEARDOWN_WAIT: Duration = Duration::from_secs(2);

/// Messages for which a channel reserves memory when it is made. Small channels then never allocate
/// again; a channel made with a capacity of millions pays only for what it comes to hold.
pub(crate) const CHANNEL_PREALLOCATED_MAX: usize = 64;

/// Threads of the blocking pool that may exist at once unless the user says otherwise. They sleep
/// in system calls (name look-ups, files), so there may be more of them than cores; each costs a
/// stack.
pub(crate) const BLOCKING_THREADS_MAX: usize = 32;

/// Jobs that may wait for a thread of the blocking pool unless the user says otherwise. Each is a
/// boxed closure; a caller beyond that is told to slow down, since the wait would already be many
/// times a job's length.
pub(crate) const BLOCKING_QUEUE_MAX: usize = 1_024;

/// How long a thread of the blocking pool waits for another job before it exits: longer than the
/// gaps within a burst of look-ups, short enough that a quiet process keeps no idle stacks.
pub(crate) const BLOCKING_IDLE: Duration = Duration::from_secs(10);

/// CPU numbers this library accepts are below this: the size of the kernel interface's fixed
/// `cpu_set_t`. It also keeps a mistyped range such as `0-4000000000` from being expanded.
pub(crate) const CORES_MAX: u16 = 1_024;

/// Levels of the timer wheel, 64 slots each. Eleven levels cover every tick a `u64` can name, so no
/// deadline, however far, needs a list of its own; unused levels cost 1 KiB each and no time.
pub(crate) const WHEEL_LEVELS: usize = 11;
