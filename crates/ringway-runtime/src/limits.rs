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

/// The longest datagram that is received: twice the longest of UDP. Unix sockets carry longer ones, of
/// which the kernel would hand over the beginning as though it were all.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// A receive buffer for datagrams: one of the longest, its sender's address, and room by which one that
/// is too long is told from it. Not a multiple of a page, so that the short ones do not all compete for the same cache lines.
pub(crate) const DATAGRAM_BUFFER_BYTES: usize = 129 * 1024;

/// Datagram buffers of a core, 32 MiB of address space.
pub(crate) const DATAGRAM_BUFFERS: u16 = 256;

/// Places in the kernel's ring of datagram buffers.
pub(crate) const DATAGRAM_RING_ENTRIES: u16 = 64;

/// Message buffers kept lent. The kernel walks its ring in order, so a long ring leaves the cache;
/// a pass of the loop receives about forty times (the kernel's cap on deferred work).
pub(crate) const HOT_BUFFERS: usize = 64;

/// Bulk buffers kept lent: half of a second-level cache. Over 100 connections with messages of 64 KiB,
/// 32 carry a ninth fewer calls (a sixth fewer over Unix sockets), 16 and 4 about as many.
pub(crate) const HOT_BULK_BUFFERS: usize = 8;

/// Datagram buffers kept lent: each datagram of a pass takes one, however short it is.
pub(crate) const HOT_DATAGRAM_BUFFERS: usize = 32;

/// Submission entries: several turns' worth; a full queue is handed over early.
pub(crate) const SUBMISSIONS: u32 = 256;

/// Threads on which the kernel may try operations of a core that it could not do at once. None of them
/// waits there for longer than a tick, so one gets by; more let those behind it pass sooner.
pub(crate) const KERNEL_WORKERS_MAX: u32 = 4;

/// Threads on which the kernel may do operations on files that have to wait for a disk: opening, syncing,
/// renaming. More of them let more syncs share one write of the file system's journal; a disk that hangs
/// keeps so many threads of each core.
pub(crate) const KERNEL_FILE_WORKERS_MAX: u32 = 16;

/// Operations on files that a core has under way; further ones wait for their turn. Above what a disk does
/// at once, and far below the completions that a ring holds.
pub(crate) const FILE_OPS_MAX: usize = 256;

/// Operations that wait for their turn; each has a task that waits for it. A core beyond that is told so.
pub(crate) const FILE_OPS_QUEUED_MAX: usize = 65_536;

/// Those of a core that the blocking pool has; the others wait here and not in its queue, which belongs to
/// the whole process.
pub(crate) const POOLED_FILE_OPS_MAX: u32 = BLOCKING_THREADS_MAX as u32;

/// Bytes that one operation reads or writes: what is in the page cache already is copied by the core itself,
/// which takes some tens of microseconds for so many. More is done in pieces.
pub(crate) const FILE_PIECE_BYTES_MAX: usize = SUBMISSION_BYTES_MAX;

/// Bytes of a file that are read to be sent at once: two of them are below the low-water mark of a send queue,
/// so one is read while another is sent, and stay in a second-level cache.
pub(crate) const FILE_SENT_BYTES_MAX: usize = 128 * 1024;

/// Names that a watch tells at once; more changes than that say "look again", as a listing is cheaper then.
pub(crate) const WATCH_NAMES_MAX: usize = 1_024;

/// Events taken off a watch in one go, so that a directory full of life does not keep the core.
pub(crate) const WATCH_EVENTS_MAX: usize = 4_096;

/// Memory that events of a watch are read into: some tens of them, and one with the longest name at least.
pub(crate) const WATCH_READ_BYTES: usize = 4 * 1024;

/// Bytes asked for to find the end of a file that is longer than it was told to be, or tells no length: two pages.
pub(crate) const FILE_PROBE_BYTES: usize = 8 * 1024;

/// Names tried for a temporary file: one is enough, but for what crashes of simulated hosts have left there.
pub(crate) const TEMPORARY_NAMES_TRIED: usize = 1_024;

/// Memory for the entries of a directory that one call tells: some hundred to a thousand of them.
pub(crate) const DIR_BATCH_BYTES: usize = 32 * 1024;

/// How long a send to a stream may wait on such a thread, where only those come whose wait the driver takes
/// over; the kernel rounds it up to its tick.
pub(crate) const KERNEL_SEND_WAIT: Duration = Duration::from_micros(1);

/// Completion entries; an overflow would end every multishot operation.
pub(crate) const COMPLETIONS: u32 = 4_096;

/// Bytes of one send chunk: what small replies of one turn are gathered into.
pub(crate) const SEND_CHUNK_BYTES: usize = 16 * 1024;

/// Spare send chunks kept by a core, 4 MiB; more are given back to the allocator.
pub(crate) const SPARE_CHUNKS_MAX: usize = 256;

/// How long each step of a core's end waits for operations that the kernel has yet to complete. There are
/// three: closing in order, a reset of what is left, and the drop of its driver. Servers wait for the sum.
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
pub(crate) const CPU_NUMBERS_MAX: u16 = 1_024;

/// Levels of the timer wheel, 64 slots each. Eleven levels cover every tick a `u64` can name, so no
/// deadline, however far, needs a list of its own; unused levels cost 1 KiB each and no time.
pub(crate) const WHEEL_LEVELS: usize = 11;

/// Events that one question to epoll brings; a busy core asks again after them.
pub(crate) const EPOLL_EVENTS: usize = 256;

/// Bytes received in one turn of the epoll driver: views live until the turn is handled, and this
/// much stays in a second-level cache beside the kernel's own copies. The rest of the pass follows
/// in the next turn, which then has no need to ask epoll.
pub(crate) const EPOLL_TURN_BYTES: usize = 256 * 1024;

/// Bytes that one socket receives before it is the next one's turn.
pub(crate) const EPOLL_SOCKET_BYTES: usize = 128 * 1024;

/// Reads of one socket before it is the next one's turn: small datagrams never reach the bytes.
pub(crate) const EPOLL_SOCKET_READS: usize = 32;

/// Connections accepted by one listener before it is the next handle's turn.
pub(crate) const EPOLL_ACCEPTS: usize = 64;

/// Segments in one gathered send of the epoll driver, described in 1 KiB of stack; a longer batch
/// takes several calls.
pub(crate) const EPOLL_GATHERED: usize = 64;

/// Spare segment lists kept by a core: one for each connection that a burst can have in flight.
pub(crate) const SPARE_LISTS_MAX: usize = 4_096;

/// Segments of one gathered send: the kernel takes 1,024 vectors; a quarter keeps its copy of them
/// small and is past the point where more per call helps.
pub(crate) const GATHER_SEGMENTS_MAX: usize = 256;

/// Bytes that one submission, or one share of a turn, sends of a stream: the copy of so many takes some
/// tens of microseconds, for which the others of the core wait. It is above what a socket takes at
/// once by default, and far below what the kernel's own counts hold.
pub(crate) const SUBMISSION_BYTES_MAX: usize = 512 * 1024;

/// Views held for a reader who is behind before the receive pauses.
pub(crate) const HELD_VIEWS_MAX: usize = 16;

/// Copied views grow to this size before another one is begun.
pub(crate) const COPIED_VIEW_BYTES: usize = 64 * 1024;

/// The part of a pool's receive buffers, one in this many, below which received bytes are copied rather
/// than held: whoever is behind then leaves enough of them for everybody else.
pub(crate) const FREE_BUFFERS_LOW_PART: usize = 8;

/// The part of a receive buffer, one in this many, that bytes have to fill to stay in it while they wait
/// behind others or are kept by a program: what stays pins at most so many times its length, and what
/// is kept half of the buffers at most.
pub(crate) const SHARED_PART_MIN: usize = 4;

/// Buffers filled in a row after which a stream changes to bulk buffers: a message of 64 KiB fills
/// three, and should lie in one.
pub(crate) const FULL_BUFFERS_TO_BULK: u8 = 2;

/// Received and untaken bytes of a stream at which its receive pauses.
pub(crate) const RECV_HIGH_WATER: usize = 256 * 1024;

/// Queued bytes of a stream at which it reports pressure and stops reading its peer.
pub(crate) const SEND_HIGH_WATER: usize = 1024 * 1024;

/// Queued bytes at which the pressure ends.
pub(crate) const SEND_LOW_WATER: usize = 256 * 1024;

/// Queued bytes above which a stream is reset: sixteen high-water marks.
pub(crate) const SEND_QUEUE_MAX: usize = 16 * 1024 * 1024;

/// A send without any progress for this long means that the peer is gone or stuck.
pub(crate) const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a dropped stream whose bytes are all sent reads on, at most: a peer in the middle of an upload
/// gets this long to see the answer. Also how long a dropped datagram socket may take to send its queue.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// How long it does so after the last bytes that came: a few round trips, and a lost segment sent again. A
/// peer that was silent for that long is not in the middle of anything.
pub(crate) const LINGER_QUIET: Duration = Duration::from_secs(1);

/// Memory of a core that bytes received and not taken, and bytes queued and not sent, may keep in use
/// unless the user says otherwise. A thousand clients that read slowly reach their high-water marks within
/// it; ten thousand of them must not take the machine.
pub(crate) const HELD_BYTES_MAX: usize = 1 << 30;

/// Connections that the kernel completes before we accept them; it caps this by `somaxconn`.
pub(crate) const BACKLOG: i32 = 4_096;

/// Tasks that wait for one stream in one way before they are asked for the first time whether they still do,
/// more than most programs split a connection into: wakers of tasks that have given up must not gather.
pub(crate) const STREAM_WAITERS: usize = 1_024;

/// Wakers of one stream in one way, 1 MiB of them. Of more tasks, some are woken again and again in vain.
pub(crate) const STREAM_WAITERS_MAX: usize = 65_536;

/// Accepted connections that wait for the acceptor; beyond, the kernel's backlog holds them.
pub(crate) const ACCEPTED_MAX: usize = 1_024;

/// Pause of accepting after descriptors or memory ran out.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Received datagrams held for a reader who is behind; more are dropped, as the kernel would.
pub(crate) const DATAGRAMS_HELD_MAX: usize = 1_024;

/// Datagrams of one socket that a driver has at once. As many as a receiver takes in one turn: a
/// receiver of the same core is then not sent more than it reads, which the kernel would drop.
pub(crate) const DATAGRAMS_IN_FLIGHT_MAX: usize = HOT_DATAGRAM_BUFFERS;

/// How often a full Unix peer is asked again whether it has room: well below what a program takes for
/// a hang, and no load while one is full for long.
pub(crate) const KNOCK_INTERVAL: Duration = Duration::from_millis(2);

/// Sockets that are asked for in one go; the others follow with the next.
pub(crate) const KNOCKS_MAX: usize = 64;

/// Datagrams queued for sending.
pub(crate) const DATAGRAMS_QUEUED_MAX: usize = 1_024;

/// Polls of tasks in one turn, so that input is looked at again before everything has run.
pub(crate) const POLLS_PER_TURN: usize = 1_024;

/// Messages taken in by one turn while more tasks can run than one turn polls: some, so that tasks
/// that never rest do not shut the core off, and few, so that a flood is stopped at the mailbox's
/// bound and not turned into tasks without one.
pub(crate) const MESSAGES_BEHIND: usize = POLLS_PER_TURN / 16;

/// Looks at shared memory between two reads of the clock while spinning.
pub(crate) const SPINS_PER_CLOCK: usize = 16;

/// Spins in a row that find nothing before spinning pauses.
pub(crate) const SPIN_MISSES_MAX: u32 = 16;

/// Waits without a spin after that.
pub(crate) const SPIN_PAUSE_WAITS: u32 = 256;

/// Cores of one process: the room in a task's token, far above any machine.
pub(crate) const LIVE_CORES_MAX: usize = 4_096;

/// Messages from other cores that wait for a core: a burst of spawns; a sender beyond it is told.
pub(crate) const MAILBOX_MESSAGES: usize = 16 * 1024;

/// How long a busy core looks for the next event: about two wake-ups of a sleeping thread.
pub(crate) const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// The longest spin that may be asked for; beyond it a core would burn more than it saves.
pub(crate) const SPIN_MAX: Duration = Duration::from_millis(10);

/// A poll longer than this holds up every connection of its core noticeably.
pub(crate) const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// The finest stall threshold: the watchdog looks twice in that time.
pub(crate) const STALL_THRESHOLD_MIN: Duration = Duration::from_millis(2);

/// Bytes under way in one direction of a simulated stream unless the user says otherwise: smaller than what tests
/// send, so that full buffers happen.
pub(crate) const SIM_SOCKET_BUFFER_BYTES: usize = 64 * 1024;

/// Descriptors of a simulation unless the user says otherwise; a leak in a loop ends before memory does.
pub(crate) const SIM_DESCRIPTORS_MAX: usize = 65_536;

/// Moves of the virtual clock in one simulated turn. Faults may make many steps that tell nobody anything; beyond
/// this the turn comes back empty, so that a program gets to see its own state.
pub(crate) const SIM_STEPS_PER_TURN_MAX: usize = 1_000_000;

/// Events made before a simulated turn hands over: what a completion queue of the kernel holds.
pub(crate) const SIM_EVENTS_PER_TURN_MAX: usize = COMPLETIONS as usize;

/// Bytes of all files of a simulated disk unless the user says otherwise: a loop that writes ends before memory does.
pub(crate) const SIM_DISK_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Changes of a simulated file, and of a simulated disk's names, that wait for a sync; beyond, the oldest is made
/// durable, as a kernel writes back unasked.
pub(crate) const SIM_UNSYNCED_MAX: usize = 1_024;

/// Entries of a simulated directory that one call tells: few, so that tests meet several batches.
pub(crate) const SIM_DIR_BATCH: usize = 64;

/// The longest path of a simulated file with the zero byte at its end: Linux's `PATH_MAX`.
pub(crate) const SIM_PATH_BYTES_MAX: usize = 4_096;

/// The longest name in a simulated directory: Linux's `NAME_MAX`.
pub(crate) const SIM_NAME_BYTES_MAX: usize = 255;

/// When a simulated connect whose packets are lost fails, like a kernel's after its repeats.
pub(crate) const SIM_CONNECT_TIMEOUT: Duration = Duration::from_secs(127);

/// How often a simulated connect knocks at a full backlog again, as Linux does.
pub(crate) const SIM_CONNECT_RETRIES_MAX: u32 = 6;

/// Time before the first of those; each further one takes twice as long as the one before.
pub(crate) const SIM_CONNECT_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest wait of one turn while a core winds up: it looks at its deadline that often.
pub(crate) const RUN_DOWN_TURN: Duration = Duration::from_millis(10);

/// Receives after which the active connections are counted anew.
pub(crate) const GATHER_EPOCH: u32 = 256;

/// Messages gathered by one wait at most: 24 messages of 16 KiB, received and sent again, still fit
/// into a second-level cache.
pub(crate) const GATHER_MAX: u32 = 24;

/// The longest that a message waits for others: the price of about one wake-up.
pub(crate) const GATHER_WAIT: Duration = Duration::from_micros(50);

/// How long a core rests at a time while the kernel has no memory to take its operations: short beside what
/// such a kernel makes everybody wait, and long beside the call that asks again.
pub(crate) const REFUSED_REST: Duration = Duration::from_millis(1);

/// Callbacks of one stream that are told of its end: each may set another one, which is told in turn. Four
/// layers of a protocol, each with a hand-over of its own, need half of them.
pub(crate) const ENDS_TOLD_MAX: u8 = 8;

/// Rounds of dropping tasks at a core's end: each takes what destructors of the one before have
/// spawned; one that always spawns another must not keep the core.
pub(crate) const CLEAR_ROUNDS_MAX: usize = 64;
