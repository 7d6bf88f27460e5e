//! When a stream is ended for want of time.
//!
//! Deadlines are lazy: what moves notes its time, and the one timer of the stream looks at it when it
//! fires. The timer is moved only to an earlier deadline than it has, which happens when a send begins
//! to be waited for: once in a stall timeout at most, however much is sent.

use std::time::Instant;

use super::clocks::Clocks;
use super::socket::Socket;
use super::stream_state::{End, Phase, StreamState};
use crate::Deadline;
use crate::core::{Core, Timer};
use crate::driver::Key;
use crate::limits;

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
