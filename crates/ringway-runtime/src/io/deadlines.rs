//! When a stream is ended for want of time.
//!
//! Deadlines are lazy: what moves notes its time, and the one timer of the stream looks at it when it
//! fires. The timer is moved only to an earlier deadline than it has, which happens when a send begins
//! to be waited for: once in a stall timeout at most, however much is sent.

use std::time::Instant;

use super::stream_state::{End, Phase, StreamState};
use super::{Socket, StreamLimits};
use crate::Deadline;
use crate::core::{Core, Timer};
use crate::driver::Key;
use crate::limits;
use crate::timer::wheel::TimerKey;

/// The moments that a stream's deadlines count from, and its timer.
pub(crate) struct Clocks {
    opened: Instant,
    /// Bytes have arrived.
    received: Instant,
    /// Bytes were handed over, or some that had to wait were accepted, or there was nothing left to
    /// send for a dropped stream. Nothing is handed over before all before it is accepted, so this is
    /// also the last progress of what is in flight.
    sent: Instant,
    timer: Option<TimerKey>,
    /// When it fires; never without one.
    fires: Deadline,
}

impl Clocks {
    pub(crate) fn new(now: Instant) -> Self {
        Self { opened: now, received: now, sent: now, timer: None, fires: Deadline::NEVER }
    }

    #[inline]
    pub(crate) fn note_received(&mut self, now: Instant) {
        self.received = now;
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// When bytes last moved in either direction.
    pub(crate) fn last_active(&self) -> Instant {
        self.received.max(self.sent)
    }

    fn lifetime(&self, limits: &StreamLimits) -> Deadline {
        Deadline::after_any(self.opened, limits.lifetime)
    }

    fn idle(&self, limits: &StreamLimits) -> Deadline {
        Deadline::after_any(self.last_active(), limits.idle_timeout)
    }
}

impl StreamState {
    /// When a peer that takes nothing of what is in flight has done so for too long. A dropped stream
    /// always has such a time: nobody else would end it.
    #[inline]
    fn stall(&self) -> Deadline {
        if self.outbox.is_idle() {
            return Deadline::NEVER;
        }
        let stall = Deadline::after_any(self.clocks.sent, self.limits.write_stall_timeout);
        if self.phase == Phase::Open || !stall.is_never() {
            return stall;
        }
        Deadline::after(self.clocks.sent, limits::WRITE_STALL_TIMEOUT)
    }

    /// When reading on after the end of sending is of no use.
    fn drained(&self) -> Deadline {
        if self.phase != Phase::Draining {
            return Deadline::NEVER;
        }
        self.quiet().min(Deadline::after(self.clocks.sent, limits::LINGER))
    }

    /// When the peer, by its silence, is not in the middle of sending something.
    pub(super) fn quiet(&self) -> Deadline {
        Deadline::after(self.clocks.received, limits::LINGER_QUIET)
    }

    /// When the stream next has to look at the clock.
    fn next_deadline(&self) -> Deadline {
        let clocks = &self.clocks;
        let own = clocks.idle(&self.limits).min(clocks.lifetime(&self.limits));
        own.min(self.stall()).min(self.drained())
    }

    /// Which of its deadlines has passed.
    fn expired(&self, now: Instant) -> Option<End> {
        if self.clocks.lifetime(&self.limits).has_passed(now) {
            Some(End::Lifetime)
        } else if self.stall().has_passed(now) {
            Some(End::Stalled)
        } else if self.clocks.idle(&self.limits).min(self.drained()).has_passed(now) {
            Some(End::Idle)
        } else {
            None
        }
    }
}

impl Core {
    /// Makes the wheel call for this stream's next deadline, whatever it called for before.
    pub(crate) fn schedule_deadlines(&self, key: Key) {
        if let Some(Socket::Stream(state)) = self.sockets.borrow_mut().at(key)
            && !matches!(state.phase, Phase::Closing | Phase::Closed)
        {
            let next = state.next_deadline();
            self.set_timer(key, &mut state.clocks, next);
        }
    }

    /// A batch is handed over: the peer has until the stall timeout to take some of it.
    #[inline]
    pub(crate) fn await_progress(&self, key: Key, state: &mut StreamState) {
        state.clocks.note_sent(self.now());
        let stall = state.stall();
        if stall < state.clocks.fires {
            self.set_timer(key, &mut state.clocks, stall);
        }
    }

    /// Something has happened that may have brought a deadline closer.
    pub(crate) fn hasten_deadlines(&self, key: Key, state: &mut StreamState) {
        let next = state.next_deadline();
        if next < state.clocks.fires {
            self.set_timer(key, &mut state.clocks, next);
        }
    }

    #[cold]
    fn set_timer(&self, key: Key, clocks: &mut Clocks, deadline: Deadline) {
        clocks.fires = deadline;
        let moved = match (clocks.timer, deadline.instant()) {
            (Some(timer), Some(at)) => self.move_timer(timer, at),
            _ => false,
        };
        if !moved {
            self.stop_deadlines(clocks);
            clocks.fires = deadline;
            clocks.timer = deadline.instant().map(|at| self.start_timer(at, Timer::Socket(key)));
        }
    }

    pub(crate) fn stop_deadlines(&self, clocks: &mut Clocks) {
        clocks.fires = Deadline::NEVER;
        if let Some(timer) = clocks.timer.take() {
            self.stop_timer(timer);
        }
    }

    /// The timer of a stream has fired: a deadline has passed, or has moved since.
    pub(crate) fn on_deadline(&self, key: Key, state: &mut StreamState) {
        state.clocks.timer = None;
        state.clocks.fires = Deadline::NEVER;
        match state.expired(self.now()) {
            Some(end) => self.end_stream(key, state, end),
            None => self.hasten_deadlines(key, state),
        }
    }
}
