//! The life of a server, as its handles and its supervisor see it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Running, draining, aborting, ended; only ever forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Running,
    Draining,
    Aborting,
    Ended,
}

/// The phase, for threads to change and to wait for.
#[derive(Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Steps of the end that cores have not finished yet.
    steps_pending: usize,
    /// Why the server ended on its own; the first who waits gets it.
    failure: Option<Error>,
}

impl Control {
    /// Goes forward to `phase`; going back is ignored.
    pub(crate) fn advance(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = state.phase.max(phase);
        drop(state);
        self.changed.notify_all();
    }

    /// A core has been given a step of the end to do.
    pub(crate) fn step_begins(&self) {
        self.lock().steps_pending += 1;
    }

    /// A core has done a step, or cannot do it.
    pub(crate) fn step_ended(&self) {
        self.lock().steps_pending -= 1;
        self.changed.notify_all();
    }

    pub(crate) fn end(&self, outcome: Result) {
        let mut state = self.lock();
        state.phase = Phase::Ended;
        state.failure = outcome.err();
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Blocks until the phase is `phase` or a later one.
    pub(crate) fn wait_for(&self, phase: Phase) -> Phase {
        let waiting = self.changed.wait_while(self.lock(), |state| state.phase < phase);
        waiting.unwrap_or_else(PoisonError::into_inner).phase
    }

    /// Blocks for `delay`, or until the phase is later than `phase`.
    pub(crate) fn wait_past(&self, phase: Phase, delay: Duration) -> Phase {
        let same = |state: &mut State| state.phase <= phase;
        let waited = self.changed.wait_timeout_while(self.lock(), delay, same);
        waited.unwrap_or_else(PoisonError::into_inner).0.phase
    }

    /// Blocks until the cores have done their steps, the phase is later than `phase`, or the
    /// deadline.
    pub(crate) fn wait_for_steps(&self, phase: Phase, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let undecided = |state: &mut State| state.phase <= phase && state.steps_pending > 0;
        let waited = self.changed.wait_timeout_while(self.lock(), left, undecided);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Blocks until the server has ended.
    pub(crate) fn wait_ended(&self) -> Result {
        self.wait_for(Phase::Ended);
        self.lock().failure.take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_go_forward() {
        let control = Control::default();
        control.advance(Phase::Aborting);
        control.advance(Phase::Draining);
        assert_eq!(control.phase(), Phase::Aborting);
        assert_eq!(control.wait_for(Phase::Draining), Phase::Aborting);
    }

    #[test]
    fn a_delay_ends_with_a_later_phase_or_its_time() {
        let control = Control::default();
        control.advance(Phase::Draining);
        assert_eq!(control.wait_past(Phase::Draining, Duration::ZERO), Phase::Draining);
        control.advance(Phase::Aborting);
        let began = Instant::now();
        assert_eq!(control.wait_past(Phase::Draining, Duration::from_secs(60)), Phase::Aborting);
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn waiting_for_steps_ends_with_them_a_later_phase_or_the_deadline() {
        let control = Control::default();
        control.advance(Phase::Draining);
        control.step_begins();
        control.wait_for_steps(Phase::Draining, Instant::now());
        let far = Instant::now() + std::time::Duration::from_secs(3_600);
        control.advance(Phase::Aborting);
        control.wait_for_steps(Phase::Draining, far);
        control.step_ended();
        control.wait_for_steps(Phase::Aborting, far);
        assert!(Instant::now() < far);
    }
}
