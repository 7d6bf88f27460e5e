//! The state of a stream between its owner and the driver.
//!
//! ```text
//!           recv_start               data above high water
//!   Off ───────────────► Armed ─────────────────────────────► Stopping
//!    ▲                     │  end of stream, error                │ stopped
//!    │                     ▼                                      ▼
//!    └──────────────────────────── (below low water: armed again) Off
//!                        Ended
//! ```

use std::any::Any;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::inbox::Inbox;
use super::outbox::Outbox;
use super::stream::{Incoming, Next, StreamLimits};
use super::waiters::Waiters;
use crate::driver::RecvClass;
use crate::limits;
use crate::timer::wheel::TimerKey;

/// One stream of a core.
pub(crate) struct StreamState {
    pub(crate) fd: RawFd,
    pub(crate) recv: RecvState,
    pub(crate) class: RecvClass,
    /// Buffers filled to the brim in a row.
    full_buffers: u8,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// Why nothing more arrives or can be sent.
    pub(crate) end: Option<End>,
    /// Tasks that wait for bytes or the end.
    pub(crate) readers: Waiters,
    /// Tasks that wait for room in the outbox, or for the connection.
    pub(crate) writers: Waiters,
    pub(crate) callback: Option<Callback>,
    /// What is to be dropped when the descriptor has been closed.
    pub(crate) held: Option<Box<dyn Any>>,
    pub(crate) connecting: bool,
    /// The send queue has reached its high-water mark and not yet been at the low one since.
    pub(crate) congested: bool,
    /// Receiving waits while the stream is congested.
    pub(crate) paced: bool,
    /// The callback knows that the stream has ended.
    pub(crate) end_told: bool,
    /// On the core's dirty list.
    pub(crate) dirty: bool,
    pub(crate) shutdown: Shutdown,
    pub(crate) owner: Owner,
    pub(crate) limits: Rc<StreamLimits>,
    /// The last time that bytes arrived or were accepted.
    pub(crate) last_active: Instant,
    pub(crate) opened: Instant,
    pub(crate) timer: Option<TimerKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvState {
    /// Not asked for.
    Off,
    Armed,
    /// Asked to stop; late data may still come.
    Stopping,
    /// No more will come.
    Ended,
}

/// How a stream ended. Kept, and told again to everyone who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The peer sends no more; sending is still possible.
    Eof,
    /// An error number of the kernel.
    Errno(i32),
    /// The stream's own timeouts or bounds.
    Timeout(&'static str),
    SlowReader,
}

/// The sending half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shutdown {
    Open,
    /// After what is queued.
    Wanted,
    Done,
}

/// Who answers for the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A [`Stream`] handle is alive.
    Handle,
    /// Dropped: what is queued is still sent, until this deadline.
    Lingering(Instant),
    /// The driver is closing it.
    Closing,
}

/// A consumer that is called from the completion, without a task. It owns the stream.
pub(crate) type Callback = Box<dyn FnMut(Incoming) -> Next>;

impl StreamState {
    pub(crate) fn new(fd: RawFd, limits: Rc<StreamLimits>, now: Instant) -> Self {
        Self {
            fd,
            recv: RecvState::Off,
            class: RecvClass::Message,
            full_buffers: 0,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            end: None,
            readers: Waiters::default(),
            writers: Waiters::default(),
            callback: None,
            held: None,
            connecting: false,
            congested: false,
            paced: false,
            end_told: false,
            dirty: false,
            shutdown: Shutdown::Open,
            owner: Owner::Handle,
            limits,
            last_active: now,
            opened: now,
            timer: None,
        }
    }

    /// Whether sending has stopped being possible.
    pub(crate) fn is_broken(&self) -> bool {
        !matches!(self.end, None | Some(End::Eof))
    }

    /// Ends the stream for both halves; the first reason stays.
    pub(crate) fn fail(&mut self, end: End) {
        if !self.is_broken() {
            self.end = Some(end);
            self.end_told = false;
        }
    }

    /// Whether the end of the turn has something to do for this stream.
    pub(crate) fn needs_service(&self) -> bool {
        self.outbox.is_ready()
            || self.is_broken()
            || (self.outbox.is_idle()
                && (self.owner != Owner::Handle || self.shutdown == Shutdown::Wanted))
    }

    /// Whether something goes on only when what is being sent was accepted.
    pub(crate) fn awaits_send(&self) -> bool {
        !self.writers.is_empty()
            || self.owner != Owner::Handle
            || self.shutdown == Shutdown::Wanted
            || self.congested
    }

    /// Whether the reader has to wait until the peer takes what is queued for it.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.paced && self.congested && !self.is_broken()
    }

    /// Whether bytes should be flowing in.
    pub(crate) fn wants_recv(&self) -> bool {
        self.owner == Owner::Handle
            && !self.connecting
            && self.end.is_none()
            && self.recv == RecvState::Off
            && !self.waits_for_room()
            && self.inbox.bytes() <= self.limits.recv_high_water / 2
    }

    /// Notes how full the last buffer was; true when the stream should change to large buffers.
    pub(crate) fn outgrows_messages(&mut self, len: usize) -> bool {
        if self.class != RecvClass::Message || len < limits::MESSAGE_BUFFER_BYTES {
            self.full_buffers = 0;
            return false;
        }
        self.full_buffers = self.full_buffers.saturating_add(1);
        self.full_buffers >= limits::FULL_BUFFERS_TO_BULK
    }

    /// When the stream next has to look at the clock.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let idle = self.limits.idle_timeout.map(|idle| self.last_active + idle);
        let lifetime = self.limits.lifetime.map(|lifetime| self.opened + lifetime);
        let stalled = self.limits.write_stall_timeout.filter(|_| !self.outbox.is_idle());
        let stalled = stalled.map(|stall| self.last_active + stall);
        let lingering = match self.owner {
            Owner::Lingering(until) => Some(until),
            Owner::Handle | Owner::Closing => None,
        };
        [idle, lifetime, stalled, lingering].into_iter().flatten().min()
    }

    /// Which of its deadlines has passed.
    pub(crate) fn expired(&self, now: Instant) -> Option<End> {
        let quiet = now.saturating_duration_since(self.last_active);
        let longer = |limit: Option<Duration>, than: Duration| limit.is_some_and(|l| than >= l);
        if longer(self.limits.lifetime, now.saturating_duration_since(self.opened)) {
            Some(End::Timeout("the connection has reached its lifetime limit"))
        } else if !self.outbox.is_idle() && longer(self.limits.write_stall_timeout, quiet) {
            Some(End::Timeout("the peer has not taken any bytes for the write-stall timeout"))
        } else if longer(self.limits.idle_timeout, quiet) {
            Some(End::Timeout("the connection was idle for its idle timeout"))
        } else {
            None
        }
    }
}

impl End {
    /// The error that a caller sees.
    pub(crate) fn to_error(self) -> io::Error {
        match self {
            End::Eof => io::ErrorKind::UnexpectedEof.into(),
            End::Errno(errno) => io::Error::from_raw_os_error(errno),
            End::Timeout(what) => io::Error::new(io::ErrorKind::TimedOut, what),
            End::SlowReader => io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the peer reads too slowly: its send queue has reached its bound",
            ),
        }
    }
}
