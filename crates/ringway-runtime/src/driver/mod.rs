//! The operating-system interface of the event loop: one contract, three drivers.
//!
//! A driver turns operations into [`Event`]s. It owns everything the kernel sees: receive buffers
//! come from the core's pools, and a [`SendBatch`] moves in and is returned only after the kernel
//! is done with it. So dropping a future can lose nothing, and no caller's memory is ever lent to
//! the kernel.
//!
//! The rules of the contract, which one conformance suite checks for all drivers:
//!
//! * A [`Key`] is registered once with its descriptor, which then belongs to the driver, and lives
//!   until its `Closed` event. All other operations name the key. An operation on a key that is not
//!   registered, closing or closed does nothing (the batch of a send comes back with `EBADF`), so
//!   nothing can reach a descriptor that is closed or somebody else's.
//! * Receive: after `recv_start` come any number of `Received` events, then exactly one `RecvEnded`.
//!   A driver that runs out of buffers parks the receive and arms it again when one is free.
//! * Send: at most one batch is in flight per stream, and [`limits::DATAGRAMS_IN_FLIGHT_MAX`] per
//!   datagram socket, whose Unix datagrams keep their order. Each is answered by exactly one `Sent`:
//!   after the kernel accepted all of it, after the first error, or when `close` ended it. Partial
//!   sends are resumed inside. A batch that must wait for its peer reports `Progress`, and again for
//!   each part that the kernel accepts before the last. Segments are returned unchanged, because
//!   dropping one may run a user's code.
//! * `close` cancels what is in flight, closes the descriptor after the last completion and answers
//!   with `Closed`, the last event of that key. Until then only a batch that was in flight is told
//!   of; bytes that arrive meanwhile are dropped.
//! * A file operation is started under a name that no other one has until its `FileEnded`, which is told
//!   once, cancelled or not, and gives back what the operation owned. A driver that would have to wait for it
//!   gives the operation back at once instead: it is for the blocking pool.
//! * No user code runs inside a driver.

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{SockAddr, SockRef};

use self::files::{Changes, FileDescriptor, FileEnd, FileOp, read_changes};
use self::sim::disk::Disk;
use crate::buf::{Segment, View};
use crate::limits;

#[cfg(test)]
mod conformance;
pub(crate) mod ended;
pub(crate) mod epoll;
pub(crate) mod files;
mod gather;
mod knocking;
pub(crate) mod sim;
pub(crate) mod sockets;
pub(crate) mod uring;

/// The key of an I/O object of one core: its slot and the slot's generation.
///
/// It is packed as `gen:24 | index:32` so that a driver can add eight bits of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(u64);

impl Key {
    /// The key of nothing.
    pub(crate) const NONE: Key = Key(u64::MAX);

    /// The first key of the first slot.
    pub(crate) const FIRST: Key = Key(0);

    pub(crate) const GENERATION_MASK: u32 = (1 << 24) - 1;

    pub(crate) fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation & Self::GENERATION_MASK) << 32 | u64::from(index))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as u32 as usize
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & Self::GENERATION_MASK
    }

    /// The low 56 bits; the high eight are zero.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << 56) - 1))
    }
}

/// The class of a receive, which selects the pool of its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvClass {
    /// One message of up to 16 KiB and its header.
    Message,
    /// A stream that fills every buffer: large blocks, so fewer completions.
    Bulk,
    /// Datagrams with their sender's address.
    Datagram,
}

impl RecvClass {
    pub(crate) const ALL: [RecvClass; 3] = [Self::Message, Self::Bulk, Self::Datagram];
}

/// The reason why a receive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvEnd {
    /// The peer sends no more.
    Eof,
    /// `recv_stop` took effect; no byte was lost.
    Stopped,
    /// The receive failed with this error number.
    Failed(i32),
}

/// The content of one gathered send, which the driver owns until the kernel is done.
#[derive(Debug, Default)]
pub(crate) struct SendBatch {
    /// The segments to send; never empty when the batch reaches a driver.
    pub(crate) segments: Vec<Segment>,
    /// The receiver of a datagram on an unconnected socket.
    pub(crate) to: Option<Box<SockAddr>>,
    /// Whether something waits for the answer, so that the driver reports it before it sleeps.
    /// Otherwise the answer may come with the next event.
    pub(crate) urgent: bool,
}

impl SendBatch {
    /// Whether the batch is a datagram to a Unix address.
    fn is_to_unix(&self) -> bool {
        self.to.as_deref().is_some_and(SockAddr::is_unix)
    }

    /// Makes the final event of a batch.
    fn ended(self, key: Key, bytes: usize, errno: i32) -> Event {
        Event::Sent { key, bytes, errno, segments: self.segments }
    }

    /// Makes the answer to a send under a key that is not open.
    fn refused(self, key: Key) -> Event {
        self.ended(key, 0, libc::EBADF)
    }
}

/// The error of an operation on a key that is not open.
fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// An event that a driver reports.
#[derive(Debug)]
pub(crate) enum Event {
    /// A new connection; the receiver of the event owns the descriptor.
    Accepted { key: Key, fd: RawFd },
    /// Accepting failed or ended with this error number; the driver has disarmed the accept.
    AcceptEnded { key: Key, errno: i32 },
    /// The outcome of `connect`: zero, or an error number.
    Connected { key: Key, errno: i32 },
    /// Bytes of a stream, in order.
    Received { key: Key, data: View },
    /// One datagram and its sender (`None` on a connected or unnamed peer).
    Datagram { key: Key, data: View, from: Option<Box<SockAddr>> },
    /// A datagram was longer than [`limits::DATAGRAM_BYTES_MAX`], and is lost.
    Oversized { key: Key },
    /// The last event of a receive.
    RecvEnded { key: Key, end: RecvEnd },
    /// The kernel accepted this many further bytes of a batch, perhaps none; the rest waits for the
    /// peer. A batch that is accepted at once has none of these events, and its `Sent` may come
    /// later.
    Progress { key: Key, bytes: usize },
    /// The outcome of a batch: bytes accepted since the last `Progress`, and zero or an error
    /// number. The segments are returned unchanged; their receiver drops them outside every borrow,
    /// since that may run a user's destructors.
    Sent { key: Key, bytes: usize, errno: i32, segments: Vec<Segment> },
    /// The descriptor is closed; the key is free.
    Closed { key: Key },
    /// The outcome of the file operation of that name.
    FileEnded { name: Key, end: Box<FileEnd> },
}

impl Event {
    /// The socket whose event this is.
    pub(crate) fn key(&self) -> Key {
        match self {
            Event::FileEnded { .. } => Key::NONE,
            Event::Accepted { key, .. }
            | Event::AcceptEnded { key, .. }
            | Event::Connected { key, .. }
            | Event::Received { key, .. }
            | Event::Datagram { key, .. }
            | Event::Oversized { key }
            | Event::RecvEnded { key, .. }
            | Event::Progress { key, .. }
            | Event::Sent { key, .. }
            | Event::Closed { key } => *key,
        }
    }

    /// Makes the event of a received datagram.
    #[inline]
    fn of_datagram(key: Key, data: View, from: Option<Box<SockAddr>>) -> Event {
        if data.len() > limits::DATAGRAM_BYTES_MAX {
            return Event::Oversized { key };
        }
        Event::Datagram { key, data, from }
    }

    /// Drops an event that nobody takes in, outside of every borrow.
    pub(crate) fn retire(self) {
        match self {
            Event::Sent { segments, .. } => segments.into_iter().for_each(Segment::retire),
            Event::FileEnded { end, .. } => end.retire(),
            _ => {}
        }
    }
}

/// How long a turn may wait for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Do not wait.
    Poll,
    /// Wait until an event, a signal from another core, or this long.
    AtMost(Duration),
    /// Wait until an event or a signal.
    Forever,
}

impl Wait {
    /// The wait that also ends after `limit`.
    fn no_longer_than(self, limit: Duration) -> Wait {
        match self {
            _ if limit.is_zero() => Wait::Poll,
            Wait::Poll => Wait::Poll,
            Wait::AtMost(other) => Wait::AtMost(other.min(limit)),
            Wait::Forever => Wait::AtMost(limit),
        }
    }
}

/// Counters of a driver since its start; they never decrease.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DriverCounters {
    /// System calls on behalf of the loop: enters, waits, receives, sends, closes.
    pub(crate) syscalls: u64,
    /// Number of receives parked because every buffer was in use.
    pub(crate) starved: u64,
    /// Number of sends that the kernel accepted only in part.
    pub(crate) short_sends: u64,
    /// Number of multishot operations that ended early and were armed again.
    pub(crate) rearms: u64,
}

/// Options of a listening or datagram socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindOptions {
    pub(crate) reuse_port: bool,
    pub(crate) backlog: i32,
    pub(crate) only_v6: bool,
}

/// The operating-system interface of one core, implemented by io_uring, epoll and sim, and by a
/// replacement for the driver of a failed core.
pub(crate) trait Driver {
    /// The clock for the core's deadlines; virtual under sim. A core asks in each turn, and before each sleep.
    fn now(&self) -> Instant;

    /// Opens a listening socket (stream, inet or Unix) and returns its bound address.
    fn listen(&mut self, addr: &SockAddr, options: BindOptions) -> io::Result<(RawFd, SockAddr)>;

    /// Opens a datagram socket bound to `addr`.
    fn bind_datagram(
        &mut self,
        addr: &SockAddr,
        options: BindOptions,
    ) -> io::Result<(RawFd, SockAddr)>;

    /// Opens a stream socket for `addr`'s family, not yet connected.
    fn open_stream(&mut self, addr: &SockAddr) -> io::Result<RawFd>;

    /// The peer address of a connected stream.
    fn peer_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        SockRef::from(&sockets::borrow(fd)).peer_addr()
    }

    /// The address to which a socket is bound.
    fn local_addr(&self, fd: RawFd) -> io::Result<SockAddr> {
        SockRef::from(&sockets::borrow(fd)).local_addr()
    }

    /// Whether descriptors are simulated, not the kernel's.
    fn is_simulated(&self) -> bool {
        false
    }

    /// The seed of a simulation.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Prepares a descriptor that was made elsewhere (inherited, or accepted by another core).
    fn adopt(&mut self, fd: RawFd) -> io::Result<()>;

    /// Takes over a descriptor under a key whose index no other key has until its `Closed` event.
    fn register(&mut self, key: Key, fd: RawFd);

    /// Starts to connect; answered by `Connected`.
    fn connect(&mut self, key: Key, addr: &SockAddr);

    /// Accepts connections, each reported by `Accepted`, until `AcceptEnded` or `close`.
    fn accept_start(&mut self, key: Key);

    /// Stops accepting without closing; answered by `AcceptEnded` with `ECANCELED`.
    fn accept_stop(&mut self, key: Key);

    /// Receives until `RecvEnded`.
    fn recv_start(&mut self, key: Key, class: RecvClass);

    /// Asks a receive to end; bytes already received are reported by `Received` first.
    fn recv_stop(&mut self, key: Key);

    /// Sends a batch; answered by `Sent`.
    fn send(&mut self, key: Key, batch: SendBatch);

    /// Ends the sending half; everything sent before is delivered first.
    ///
    /// # Errors
    /// Returns the kernel's error, or `EBADF` for a key that is not open.
    fn shutdown_write(&mut self, key: Key) -> io::Result<()>;

    /// Cancels everything and closes; `abort` resets the connection instead of finishing it.
    fn close(&mut self, key: Key, abort: bool);

    /// Closes a descriptor that never got a key (an accepted connection over a limit).
    fn close_unregistered(&mut self, fd: RawFd);

    /// Starts an operation on files under `name`, answered by `FileEnded`; gives it back where this interface
    /// has no such operation, and a system call would have to wait.
    fn start_file_op(&mut self, name: Key, op: FileOp) -> Option<FileOp>;

    /// Asks an operation on files to end early. It may have been done, whole or in part, all the same.
    fn cancel_file_op(&mut self, name: Key);

    /// Takes off a watch what has changed by now, without waiting.
    fn take_changes(&mut self, watch: &FileDescriptor) -> io::Result<Changes> {
        read_changes(watch)
    }

    /// Has a simulation find a disk at that path.
    ///
    /// # Errors
    /// Outside of a simulation, and where another disk is in use there.
    fn mount(&mut self, _: &Path, _: &Disk) -> io::Result<()> {
        let why = "only a simulation has disks of its own";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Whether a `turn` would find something, told from shared memory where that is possible.
    fn peek(&mut self) -> bool;

    /// Whether so many connections are active that sleeping until several messages have gathered is
    /// better than spinning for the next one.
    fn gathers(&self) -> bool {
        false
    }

    /// Hands over the queued operations, waits as `wait` says and appends the events that
    /// completed.
    ///
    /// # Errors
    /// Fails only when the interface itself is broken; the core then ends.
    fn turn(&mut self, wait: Wait, events: &mut Vec<Event>) -> io::Result<()>;

    fn counters(&self) -> DriverCounters;

    /// One line for logs and environment reports: interface and accepted flags.
    fn describe(&self) -> String;

    /// Makes the next turn find that the kernel has dropped completions, if it can do so.
    #[cfg(test)]
    fn lose_completions(&mut self) {}
}
