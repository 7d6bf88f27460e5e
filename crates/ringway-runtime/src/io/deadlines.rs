//! Deadlines of streams.
//!
//! Deadlines are lazy: activity only records its time, and the stream's single timer looks at that
//! when it fires. The timer is moved only to an earlier deadline, which happens when a send starts
//! to wait: once per stall timeout at most, however much is sent.

use std::time::Instant;

use super::clocks::Clocks;
use super::socket::Socket;
use super::stream_state::{End, Phase, StreamState};
use crate::Deadline;
use crate::core::{Core, Timer};
use crate::driver::Key;
use crate::limits;

impl StreamState {
    /// The deadline of a peer that accepts nothing of what is in flight, or next to nothing. A dropped stream always
    /// has one, since nobody else would end it.
    #[inline]
    fn stall(&self) -> Deadline {
        if self.outbox.is_idle() {
            return Deadline::NEVER;
        }
        let timeout = self.limits.write_stall_timeout;
        let stall = timeout.map_or(Deadline::NEVER, |timeout| self.clocks.stall(timeout));
        if self.phase == Phase::Open || !stall.is_never() {
            return stall;
        }
        self.clocks.stall(limits::WRITE_STALL_TIMEOUT)
    }

    /// The deadline for reading on after the end of sending.
    fn drained(&self) -> Deadline {
        if self.phase != Phase::Draining {
            return Deadline::NEVER;
        }
        self.quiet().min(Deadline::after(self.clocks.sent, limits::LINGER))
    }

    /// The time from which a silent peer counts as not in the middle of sending.
    pub(super) fn quiet(&self) -> Deadline {
        Deadline::after(self.clocks.received, limits::LINGER_QUIET)
    }

    /// The next deadline of the stream.
    fn next_deadline(&self) -> Deadline {
        let clocks = &self.clocks;
        let own = clocks.idle(&self.limits).min(clocks.lifetime(&self.limits));
        own.min(self.stall()).min(self.drained())
    }

    /// The deadline that has passed, if any.
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
    /// Sets the timer to this stream's next deadline, whatever it was before.
    pub(crate) fn schedule_deadlines(&self, key: Key) {
        if let Some(Socket::Stream(state)) = self.sockets.borrow_mut().at(key)
            && !matches!(state.phase, Phase::Closing | Phase::Closed)
        {
            let next = state.next_deadline();
            self.set_timer(key, &mut state.clocks, next);
        }
    }

    /// Starts the stall timeout of a batch that is handed over.
    #[inline]
    pub(crate) fn await_progress(&self, key: Key, state: &mut StreamState) {
        state.clocks.note_sent(self.now());
        let stall = state.stall();
        if stall < state.clocks.fires {
            self.set_timer(key, &mut state.clocks, stall);
        }
    }

    /// Moves the timer if the next deadline has become earlier.
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

    /// Handles the stream's timer: a deadline has passed, or has moved since.
    pub(crate) fn on_deadline(&self, key: Key, state: &mut StreamState) {
        state.clocks.timer = None;
        state.clocks.fires = Deadline::NEVER;
        match state.expired(self.now()) {
            Some(end) => self.end_stream(key, state, end),
            None => self.hasten_deadlines(key, state),
        }
    }
}
