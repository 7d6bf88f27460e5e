//! The state of a stream between its handle and the driver.
//!
//! ```text
//!           recv_start               data above high water
//!   Off ───────────────► Armed ─────────────────────────────► Stopping
//!    ▲                     │  end of stream, error                │ stopped
//!    │                     ▼                                      ▼
//!    └──────────────────────────── (below low water: armed again) Off
//!                        Ended
//! ```
//!
//! A stream that changes to large buffers is stopped too, but goes on as if it had not been: what it takes in does
//! not depend on the sizes of the pieces in which bytes arrive.
//!
//! The end of a stream is in `closing.rs`, its deadlines in `deadlines.rs`.

use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Instant;

use super::callback::Callback;
use super::clocks::Clocks;
use super::closed::{Closed, Guards};
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::stream_limits::StreamLimits;
use super::waiters::Waiters;
use crate::core::Held;
use crate::driver::RecvClass;
use crate::limits;

/// One stream of a core.
pub(crate) struct StreamState {
    pub(crate) fd: RawFd,
    pub(crate) recv: RecvState,
    pub(crate) class: RecvClass,
    /// Number of consecutive buffers that were filled completely.
    full_buffers: u8,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// Bytes that the owner of the stream keeps elsewhere.
    pub(super) kept: usize,
    /// The memory of all three, as last reported to the core.
    counted: usize,
    /// The reason why nothing more arrives or can be sent.
    pub(crate) end: Option<End>,
    /// Whether a send found that the connection is gone: what had arrived before is received before
    /// readers get the error, and then the descriptor is closed.
    pub(crate) reads_out: bool,
    /// Tasks that wait for bytes or the end.
    pub(crate) readers: Waiters,
    /// Tasks that wait for room in the outbox, or for the connection to open.
    pub(crate) writers: Waiters,
    pub(crate) callback: Option<Callback>,
    /// Whether the callback is being called: it is then taken out, and its further input waits.
    pub(crate) calling: bool,
    /// Whether the callback knows that the stream has ended.
    pub(crate) end_told: bool,
    /// Number of callbacks that were told of the end.
    pub(crate) ends_told: u8,
    pub(crate) guards: Guards,
    pub(crate) connecting: bool,
    /// Whether bytes were handed over, which the peer might lose.
    pub(crate) has_sent: bool,
    /// Whether the send queue has reached its high-water mark and not fallen to the low one since.
    pub(crate) congested: bool,
    /// Whether receiving waits while the stream is congested.
    pub(crate) paced: bool,
    /// Whether the stream is on the core's dirty list.
    pub(crate) dirty: bool,
    pub(crate) shutdown: Shutdown,
    pub(crate) phase: Phase,
    /// Whether a [`Stream`](super::Stream) handle exists, which owns the slot.
    pub(crate) has_handle: bool,
    pub(crate) limits: Rc<StreamLimits>,
    pub(crate) clocks: Clocks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvState {
    /// Not started.
    Off,
    Armed,
    /// Asked to stop; late data may still arrive.
    Stopping,
    /// Asked to stop, to be armed again with other buffers.
    Changing,
    /// Ended; no more data will arrive.
    Ended,
}

/// How a stream ended. It is kept, and repeated to everyone who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Nothing more is received, by the peer's decision or ours; sending is still possible.
    Eof,
    /// The kernel reported this error number.
    Errno(i32),
    /// The stream reached its lifetime.
    Lifetime,
    Stalled,
    Idle,
    /// The send queue exceeded its limit.
    SlowReader,
    /// The core held more memory than its limit.
    CoreIsFull,
    /// The core ended while the stream had a handle.
    CoreEnded,
}

/// The state of the sending half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shutdown {
    Open,
    /// To be ended after the queue is sent.
    Wanted,
    Done,
}

/// The stage of a stream's end; see `closing.rs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Open,
    /// Dropped; the queue is still being sent.
    Sending,
    /// Everything is sent and the peer told so; what it still sends is read and dropped.
    Draining,
    /// The driver is closing the descriptor.
    Closing,
    /// The descriptor is closed. Only a handle keeps the slot.
    Closed,
}

/// The tasks and callbacks that waited for a shorter send queue.
pub(crate) struct Relief {
    pub(crate) writers: Waiters,
    pub(crate) readers: Waiters,
    pub(crate) to_callback: bool,
}

impl StreamState {
    pub(crate) fn new(fd: RawFd, limits: Rc<StreamLimits>, now: Instant) -> Self {
        Self {
            fd,
            recv: RecvState::Off,
            class: RecvClass::Message,
            full_buffers: 0,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            kept: 0,
            counted: 0,
            end: None,
            reads_out: false,
            readers: Waiters::default(),
            writers: Waiters::default(),
            callback: None,
            calling: false,
            end_told: false,
            ends_told: 0,
            guards: Guards::default(),
            connecting: false,
            has_sent: false,
            congested: false,
            paced: false,
            dirty: false,
            shutdown: Shutdown::Open,
            phase: Phase::Open,
            has_handle: true,
            limits,
            clocks: Clocks::new(now),
        }
    }

    /// Whether nothing more can be sent.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        !matches!(self.end, None | Some(End::Eof))
    }

    /// Ends both halves of the stream; the first reason stays.
    pub(crate) fn fail(&mut self, end: End) {
        self.reads_out = false;
        if !self.is_broken() {
            self.end = Some(end);
            self.end_told = false;
        }
    }

    /// Records that the kernel refused to send. If the connection is gone, the kernel reports that
    /// to the first call, perhaps before the bytes that had arrived are read.
    #[cold]
    pub(crate) fn fail_sending(&mut self, errno: i32) {
        let is_gone =
            matches!(errno, libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::ETIMEDOUT);
        let receives = self.phase == Phase::Open && self.recv != RecvState::Ended;
        let reads_out = is_gone && receives && self.end.is_none();
        self.fail(End::Errno(errno));
        self.reads_out = reads_out;
    }

    /// Whether the end of the turn has something to do for this stream.
    #[inline]
    pub(crate) fn needs_service(&self) -> bool {
        match self.phase {
            Phase::Open => {
                self.outbox.is_ready()
                    || self.is_broken() && !self.reads_out
                    || self.shutdown == Shutdown::Wanted && self.outbox.is_idle()
            }
            Phase::Sending => !self.outbox.is_in_flight() || self.is_broken(),
            Phase::Draining => self.recv == RecvState::Ended,
            Phase::Closing | Phase::Closed => false,
        }
    }

    /// Whether something waits for the answer to the current send.
    #[inline]
    pub(crate) fn awaits_send(&self) -> bool {
        !self.writers.is_empty()
            || self.phase != Phase::Open
            || self.shutdown == Shutdown::Wanted
            || self.congested
    }

    /// Whether reading waits until the peer accepts what is queued for it.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.paced && self.congested && !self.is_broken()
    }

    /// What a reader who has taken everything is told: `None` as long as more may arrive.
    #[inline]
    pub(crate) fn end_of_data(&self) -> Option<End> {
        let ending = !matches!(self.recv, RecvState::Off | RecvState::Ended);
        self.end.filter(|&end| if end == End::Eof { !ending } else { !self.reads_out })
    }

    /// Whether the stream should receive. While the core is over its memory limit, only streams
    /// that hold nothing do.
    #[inline]
    pub(crate) fn wants_recv(&self, held: &Held) -> bool {
        if self.recv != RecvState::Off || self.connecting {
            return false;
        }
        match self.phase {
            Phase::Open => {
                (self.end.is_none() || self.reads_out)
                    && !self.waits_for_room()
                    && self.inbox.bytes() <= self.limits.recv_high_water / 2
                    && (self.inbox.is_empty() || !held.is_over())
            }
            Phase::Sending | Phase::Draining => !self.is_broken(),
            Phase::Closing | Phase::Closed => false,
        }
    }

    /// Whether a receive that was stopped for a change of its buffers goes on.
    pub(crate) fn goes_on(&self, held: &Held) -> bool {
        self.phase == Phase::Open && (self.end.is_none() || self.reads_out) && !self.is_behind(held)
    }

    /// Whether so much is received and untaken that the receive must pause.
    #[inline]
    pub(crate) fn is_behind(&self, held: &Held) -> bool {
        self.inbox.is_full(self.limits.recv_high_water) || held.is_over()
    }

    /// Whether the send queue is at its high-water mark. An empty queue is below any mark, since
    /// nothing could end its pressure.
    #[inline]
    pub(crate) fn is_high(&self) -> bool {
        self.outbox.queued() >= self.limits.send_high_water.max(1)
    }

    /// Whether the send queue is at one of its limits.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.is_high() || self.outbox.queued() > self.limits.send_queue_max
    }

    /// Ends the stream if its queue exceeds its limit, or its share of a core that holds too much.
    /// Otherwise returns whether there is pressure.
    #[inline]
    pub(crate) fn check_queue(&mut self, held: &Held) -> bool {
        let is_high = self.is_high();
        if self.outbox.queued() > self.limits.send_queue_max {
            self.fail(End::SlowReader);
        } else if is_high && held.is_over() {
            self.fail(End::CoreIsFull);
        }
        self.congested |= is_high;
        is_high
    }

    /// The waiters that can continue because the queue is short enough now.
    #[inline]
    pub(crate) fn relieve(&mut self) -> Option<Relief> {
        if self.outbox.queued() > self.limits.send_low_water && !self.is_broken() {
            return None;
        }
        let was_congested = std::mem::take(&mut self.congested);
        let goes_on = was_congested && self.paced || self.is_broken();
        Some(Relief {
            writers: self.writers.take(),
            readers: if goes_on { self.readers.take() } else { Waiters::default() },
            // A dropped queue was not drained: the failure follows.
            to_callback: was_congested && self.callback.is_some() && !self.is_broken(),
        })
    }

    /// Reports to the core what the stream holds now.
    #[inline]
    pub(crate) fn count(&mut self, held: &Held) {
        let now = self.inbox.held_bytes() + self.outbox.held_bytes() + self.kept;
        held.change(std::mem::replace(&mut self.counted, now), now);
    }

    /// Records that the descriptor is closed. A stream with a handle has failed before, unless its
    /// core has ended, which its handle reports from now on.
    pub(super) fn note_closed(&mut self) -> Closed {
        self.phase = Phase::Closed;
        self.recv = RecvState::Ended;
        if self.end.is_none() || !self.outbox.is_idle() {
            self.fail(End::CoreEnded);
        }
        Closed {
            has_handle: self.has_handle,
            guards: std::mem::take(&mut self.guards),
            waiters: self.readers.take().and(self.writers.take()),
        }
    }

    /// Records how full the last buffer was; whether the stream should change to large buffers.
    #[inline]
    pub(crate) fn outgrows_messages(&mut self, len: usize) -> bool {
        if self.class != RecvClass::Message || len < limits::MESSAGE_BUFFER_BYTES {
            self.full_buffers = 0;
            return false;
        }
        self.full_buffers = self.full_buffers.saturating_add(1);
        self.full_buffers >= limits::FULL_BUFFERS_TO_BULK
    }
}

impl End {
    /// The error that a caller sees.
    pub(crate) fn to_error(self) -> io::Error {
        match self {
            End::Eof => io::ErrorKind::UnexpectedEof.into(),
            End::Errno(errno) => io::Error::from_raw_os_error(errno),
            End::Lifetime => timed_out("the connection has reached its lifetime limit"),
            End::Stalled => {
                timed_out("the peer has taken no bytes, or too few, for the write-stall timeout")
            }
            End::Idle => timed_out("the connection was idle for its idle timeout"),
            End::SlowReader => {
                slow_reader("the peer reads too slowly: its send queue has reached its bound")
            }
            End::CoreEnded => core_ended(),
            End::CoreIsFull => slow_reader(
                "the peer reads too slowly: its send queue is long, and its core holds as much as \
                 it may",
            ),
        }
    }
}

/// The error of a socket with a handle whose core has ended.
pub(super) fn core_ended() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the core of this socket has ended")
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

fn slow_reader(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, what)
}
