//! The limits of the runtime, each with its reason.

use std::time::Duration;

/// Size of a message buffer: one message of 16 KiB and a header in one completion. Smaller buffers
/// would split the message and cost a second completion; larger ones leave the cache sooner.
pub(crate) const MESSAGE_BUFFER_BYTES: usize = 17 * 1024;

/// Size of a receive buffer for streams that fill every buffer: fewer completions per byte, and a
/// few of them still fit into a second-level cache.
pub(crate) const BULK_BUFFER_BYTES: usize = 128 * 1024;

/// Number of message buffers of a core, 68 MiB of address space; memory is touched only in a burst.
pub(crate) const MESSAGE_BUFFERS: u16 = 4_096;

/// Number of bulk buffers of a core, 32 MiB of address space.
pub(crate) const BULK_BUFFERS: u16 = 256;

/// Entries of the kernel's ring of message buffers; at most this many are lent at the same time.
pub(crate) const MESSAGE_RING_ENTRIES: u16 = 1_024;

/// Entries of the kernel's ring of bulk buffers.
pub(crate) const BULK_RING_ENTRIES: u16 = 64;

/// Longest datagram that is received: twice the longest of UDP. Unix sockets carry longer ones, of
/// which the kernel would deliver the beginning as if it were all.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 128 * 1024;

/// Size of a datagram buffer: the longest datagram, its sender's address, and room to detect one
/// that is too long. Not a multiple of a page, so that short datagrams do not compete for the same
/// cache lines.
pub(crate) const DATAGRAM_BUFFER_BYTES: usize = 129 * 1024;

/// Number of datagram buffers of a core, 32 MiB of address space.
pub(crate) const DATAGRAM_BUFFERS: u16 = 256;

/// Entries of the kernel's ring of datagram buffers.
pub(crate) const DATAGRAM_RING_ENTRIES: u16 = 64;

/// Number of message buffers kept lent. The kernel walks its ring in order, so a long ring leaves
/// the cache; a pass of the loop receives about forty times (the kernel's cap on deferred work).
pub(crate) const HOT_BUFFERS: usize = 64;

/// Number of bulk buffers kept lent: half of a second-level cache. Over 100 connections with
/// messages of 64 KiB, 32 carry a ninth fewer calls (a sixth fewer over Unix sockets), 16 and 4
/// about as many.
pub(crate) const HOT_BULK_BUFFERS: usize = 8;

/// Number of datagram buffers kept lent: each datagram of a pass takes one, however short it is.
pub(crate) const HOT_DATAGRAM_BUFFERS: usize = 32;

/// Time in which a stream that has received is looked at once, since the kernel may not have told of its end.
/// Nobody waits for that end, or a send would have found it; 10,000 busy streams take about a millisecond.
pub(crate) const END_LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Streams looked at in one turn: some tens of microseconds. The others follow in the next turn.
pub(crate) const END_LOOKS_MAX: usize = 256;

/// Entries of the submission queue: several turns' worth; a full queue is submitted early.
pub(crate) const SUBMISSIONS: u32 = 256;

/// Number of kernel threads that may try operations of a core which could not be done at once. None
/// waits there longer than a tick, so one would suffice; with more, operations behind a waiting one
/// pass sooner.
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

/// How often a path is followed beneath a directory while others rename directories on it.
pub(crate) const BENEATH_TRIES: u32 = 8;

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

/// Entries of the completion queue; an overflow would end every multishot operation.
pub(crate) const COMPLETIONS: u32 = 4_096;

/// Size of a send chunk, in which small replies of one turn are joined.
pub(crate) const SEND_CHUNK_BYTES: usize = 16 * 1024;

/// Number of spare send chunks kept by a core, 4 MiB; more are freed.
pub(crate) const SPARE_CHUNKS_MAX: usize = 256;

/// Time that each step of a core's end waits for operations that the kernel has yet to complete.
/// There are three steps: an orderly close, a reset of what is left, and the drop of the driver.
/// Servers wait for their sum.
pub(crate) const TEARDOWN_WAIT: Duration = Duration::from_secs(2);

/// Number of messages for which a new channel reserves memory. Small channels then never allocate
/// again; a channel with a capacity of millions pays only for what it comes to hold.
pub(crate) const CHANNEL_PREALLOCATED_MAX: usize = 64;

/// Default number of threads of the blocking pool. They sleep in system calls (name look-ups,
/// files), so there may be more of them than cores; each costs a stack.
pub(crate) const BLOCKING_THREADS_MAX: usize = 32;

/// Default number of jobs that may wait for a thread of the blocking pool. Each is a boxed closure;
/// further callers are told to slow down, since the wait would already be many times a job's
/// length.
pub(crate) const BLOCKING_QUEUE_MAX: usize = 1_024;

/// Time that a thread of the blocking pool waits for another job before it exits: longer than the
/// gaps within a burst of look-ups, short enough that a quiet process keeps no idle stacks.
pub(crate) const BLOCKING_IDLE: Duration = Duration::from_secs(10);

/// Upper bound of accepted CPU numbers: the size of the kernel interface's fixed `cpu_set_t`. It
/// also keeps a mistyped range such as `0-4000000000` from being expanded.
pub(crate) const CPU_NUMBERS_MAX: u16 = 1_024;

/// Number of levels of the timer wheel, of 64 slots each. Eleven levels cover every tick that a
/// `u64` can hold, so no deadline needs a list of its own; unused levels cost 1 KiB each and no
/// time.
pub(crate) const WHEEL_LEVELS: usize = 11;

/// Number of events that one call to epoll returns; a busy core calls again after them.
pub(crate) const EPOLL_EVENTS: usize = 256;

/// Bytes received in one turn of the epoll driver: views live until the turn is handled, and this
/// much stays in a second-level cache beside the kernel's own copies. The rest of the pass follows
/// in the next turn, without another call to epoll.
pub(crate) const EPOLL_TURN_BYTES: usize = 256 * 1024;

/// Bytes that one socket receives before the next one has its turn.
pub(crate) const EPOLL_SOCKET_BYTES: usize = 128 * 1024;

/// Reads of one socket before the next one has its turn, since small datagrams never reach the
/// bytes.
pub(crate) const EPOLL_SOCKET_READS: usize = 32;

/// Connections that one listener accepts before the next handle has its turn.
pub(crate) const EPOLL_ACCEPTS: usize = 64;

/// Segments of one gathered send of the epoll driver, described in 1 KiB of stack; a longer batch
/// takes several calls.
pub(crate) const EPOLL_GATHERED: usize = 64;

/// Number of spare segment lists kept by a core: one for each connection that a burst can have in
/// flight.
pub(crate) const SPARE_LISTS_MAX: usize = 4_096;

/// Segments of one gathered send: the kernel accepts 1,024 vectors; a quarter keeps its copy of
/// them small, and more per call does not help.
pub(crate) const GATHER_SEGMENTS_MAX: usize = 256;

/// Bytes of a stream that one submission or one share of a turn sends: copying them takes some tens
/// of microseconds, for which the core's other connections wait. It is above what a socket accepts
/// at once by default, and far below what the kernel's counters hold.
pub(crate) const SUBMISSION_BYTES_MAX: usize = 512 * 1024;

/// Number of views held for a slow reader before the receive pauses.
pub(crate) const HELD_VIEWS_MAX: usize = 16;

/// Size to which copied views grow before another one is started.
pub(crate) const COPIED_VIEW_BYTES: usize = 64 * 1024;

/// Part of a pool's buffers, one in this many, below which received bytes are copied instead of
/// held, so that slow readers leave enough buffers for others.
pub(crate) const FREE_BUFFERS_LOW_PART: usize = 8;

/// Part of a receive buffer, one in this many, that bytes must fill to stay in it while they wait
/// behind others or are kept by a program. So waiting bytes pin at most that many times their
/// length, and kept bytes at most half of the buffers.
pub(crate) const SHARED_PART_MIN: usize = 4;

/// Number of consecutive full buffers after which a stream changes to bulk buffers: a message of 64
/// KiB fills three, and should lie in one.
pub(crate) const FULL_BUFFERS_TO_BULK: u8 = 2;

/// Received, untaken bytes of a stream at which its receive pauses.
pub(crate) const RECV_HIGH_WATER: usize = 256 * 1024;

/// Queued bytes of a stream at which it reports pressure and stops reading its peer.
pub(crate) const SEND_HIGH_WATER: usize = 1024 * 1024;

/// Queued bytes below which the pressure ends.
pub(crate) const SEND_LOW_WATER: usize = 256 * 1024;

/// Queued bytes above which a stream is reset: sixteen high-water marks.
pub(crate) const SEND_QUEUE_MAX: usize = 16 * 1024 * 1024;

/// Time without progress of a send after which the peer counts as gone or stuck.
pub(crate) const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Milliseconds that a byte which waits for its peer may take, all together; whoever is behind by more than the
/// timeout above holds on to our memory on purpose. These are 100 bytes a second: of a browser that has the slowest
/// mobile line, 20 kbit/s, for six connections, each takes four times as much.
pub(crate) const WRITE_BYTE_MS: usize = 10;

/// Longest time for which a dropped stream reads on after all its bytes are sent, so that a peer in
/// the middle of an upload can see the answer. Also the time for a dropped datagram socket to send
/// its queue.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// Time without input after which a dropped stream stops reading on: a few round trips, and a lost
/// segment sent again. A peer that was silent for that long is not in the middle of anything.
pub(crate) const LINGER_QUIET: Duration = Duration::from_secs(1);

/// Default limit for the memory of a core that received untaken bytes and queued unsent bytes hold.
/// A thousand slow clients reach their high-water marks within it; ten thousand of them must not
/// take the machine.
pub(crate) const HELD_BYTES_MAX: usize = 1 << 30;

/// Connections that the kernel completes before they are accepted; it caps this by `somaxconn`.
pub(crate) const BACKLOG: i32 = 4_096;

/// Number of tasks waiting for one stream in one way before all are woken for the first time to see
/// whether they still wait, since wakers of tasks that gave up must not gather. Most programs use
/// fewer tasks per connection.
pub(crate) const STREAM_WAITERS: usize = 1_024;

/// Most wakers of one stream in one way, 1 MiB of them. With more tasks, some are woken repeatedly
/// in vain.
pub(crate) const STREAM_WAITERS_MAX: usize = 65_536;

/// Accepted connections that wait for the acceptor; the kernel's backlog holds the others.
pub(crate) const ACCEPTED_MAX: usize = 1_024;

/// Pause of accepting after descriptors or memory ran out.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Received datagrams held for a slow reader; more are dropped, as the kernel would do.
pub(crate) const DATAGRAMS_HELD_MAX: usize = 1_024;

/// Datagrams of one socket that a driver has at the same time. As many as a receiver takes in one
/// turn: a receiver on the same core is then not sent more than it reads, which the kernel would
/// drop.
pub(crate) const DATAGRAMS_IN_FLIGHT_MAX: usize = HOT_DATAGRAM_BUFFERS;

/// Time between retries to a full Unix peer: well below what people take for a hang, and no load if
/// a peer is full for long.
pub(crate) const KNOCK_INTERVAL: Duration = Duration::from_millis(2);

/// Sockets that are retried in one go; others follow in the next.
pub(crate) const KNOCKS_MAX: usize = 64;

/// Datagrams of a socket queued for sending.
pub(crate) const DATAGRAMS_QUEUED_MAX: usize = 1_024;

/// Polls of tasks in one turn, so that input is handled before everything has run.
pub(crate) const POLLS_PER_TURN: usize = 1_024;

/// Messages handled by one turn while more tasks can run than one turn polls: some, so that tasks
/// that never rest do not cut the core off, and few, so that a flood is stopped by the mailbox's
/// limit instead of becoming tasks without one.
pub(crate) const MESSAGES_BEHIND: usize = POLLS_PER_TURN / 16;

/// Lateness of timers from which a core first reads what has come meanwhile: far above that of busy turns, and little
/// compared with the time that peers have for anything.
pub(crate) const TIMERS_LATE: Duration = Duration::from_millis(100);

/// How often it looks: each time as many receives as lacked a buffer have one, so a few are enough for thousands of
/// connections, and those that always have more are not read for ever.
pub(crate) const LOOKS_WHEN_LATE: usize = 16;

/// Number of spins between two reads of the clock.
pub(crate) const SPINS_PER_CLOCK: usize = 16;

/// Consecutive spins without an event before spinning pauses.
pub(crate) const SPIN_MISSES_MAX: u32 = 16;

/// Number of waits without a spin after too many misses.
pub(crate) const SPIN_PAUSE_WAITS: u32 = 256;

/// Cores of one process: what a task's token can express, far above any machine.
pub(crate) const LIVE_CORES_MAX: usize = 4_096;

/// Messages from other cores that wait for a core: enough for a burst of spawns; further senders
/// get an error.
pub(crate) const MAILBOX_MESSAGES: usize = 16 * 1024;

/// Default time that a busy core spins for the next event: about two wake-ups of a sleeping thread.
pub(crate) const SPIN_DEFAULT: Duration = Duration::from_micros(50);

/// Longest spin that may be configured; a longer one burns more than it saves.
pub(crate) const SPIN_MAX: Duration = Duration::from_millis(10);

/// Default length of a poll that counts as a stall, since it holds up every connection of its core
/// noticeably.
pub(crate) const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// Shortest stall threshold: the watchdog looks twice in that time.
pub(crate) const STALL_THRESHOLD_MIN: Duration = Duration::from_millis(2);

/// Stall thresholds that a poll lasts until its core counts as hung: 5 s by default. What takes that long is more
/// often a deadlock than work.
pub(crate) const STALLS_OF_A_HANG: u32 = 50;

/// Default size of each direction's buffer of a simulated stream: smaller than what tests send, so
/// that full buffers occur.
pub(crate) const SIM_SOCKET_BUFFER_BYTES: usize = 64 * 1024;

/// Default number of descriptors of a simulation; a leak in a loop ends before memory does.
pub(crate) const SIM_DESCRIPTORS_MAX: usize = 65_536;

/// Moves of the virtual clock in one simulated turn. Faults may cause many steps without an event;
/// beyond this the turn returns empty, so that a program sees its own state.
pub(crate) const SIM_STEPS_PER_TURN_MAX: usize = 1_000_000;

/// Turns of a simulated core at one moment of virtual time, after which it is told not to get on: a program that waits
/// for nothing but what is due makes some tens of them, a burst of a hundred thousand tasks some hundreds, and a loop
/// makes so many in a second or a few.
pub(crate) const SIM_STILL_TURNS_MAX: u32 = 100_000;

/// Polls of tasks in these turns, after which it is told as well: tasks that wake each other make very many in a turn, and
/// a million tasks some millions.
pub(crate) const SIM_STILL_POLLS_MAX: u32 = 10_000_000;

/// The last of these polls, whose tasks are named: those of a turn. And how many are: a loop has few.
pub(crate) const SIM_STILL_POLLS_NAMED: u32 = POLLS_PER_TURN as u32;
pub(crate) const SIM_STILL_TASKS_NAMED: usize = 8;

/// Events made before a simulated turn returns: what a completion queue of the kernel holds.
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

/// How often a simulated connect retries a full backlog, as on Linux.
pub(crate) const SIM_CONNECT_RETRIES_MAX: u32 = 6;

/// Time before the first retry; each further one takes twice as long.
pub(crate) const SIM_CONNECT_RETRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait of one turn while a core ends: it checks its deadline that often.
pub(crate) const RUN_DOWN_TURN: Duration = Duration::from_millis(10);

/// Receives after which the active connections are counted anew.
pub(crate) const GATHER_EPOCH: u32 = 256;

/// Most messages that one wait gathers: 24 messages of 16 KiB, received and sent again, still fit
/// into a second-level cache.
pub(crate) const GATHER_MAX: u32 = 24;

/// Longest time that a message waits for others: the cost of about one wake-up.
pub(crate) const GATHER_WAIT: Duration = Duration::from_micros(50);

/// Time that a core rests while the kernel has no memory for its operations: short compared with
/// what such a kernel makes everybody wait, and long compared with the call that tries again.
pub(crate) const REFUSED_REST: Duration = Duration::from_millis(1);

/// Callbacks of one stream that are told of its end: each may set another one, which is told in
/// turn. Four layers of a protocol, each with a hand-over, need half of them.
pub(crate) const ENDS_TOLD_MAX: u8 = 8;

/// Rounds of dropping tasks at a core's end: each drops what destructors of the round before have
/// spawned; a destructor that always spawns must not keep the core alive.
pub(crate) const CLEAR_ROUNDS_MAX: usize = 64;
