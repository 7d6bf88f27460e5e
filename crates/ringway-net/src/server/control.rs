//! The phases of a server, shared by its handles, its supervisor and its cores.
//!
//! A phase is state that every core looks at, not a message that a full mailbox could refuse: a
//! core waits for a phase with a waker, and waking cannot fail.

use std::mem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime::{Deadline, contain, drop_contained};

use crate::error::{Error, Result};

/// The phases of a server. A server only moves forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Running,
    /// A shutdown was requested; the server still serves normally until `drain_delay` has passed.
    Asked,
    Draining,
    Aborting,
    Ended,
}

/// The current phase, which threads and cores change and wait for.
pub(crate) struct Control {
    state: Mutex<ControlState>,
    changed: Condvar,
    /// A copy of the phase that can be read without the lock.
    phase: AtomicU8,
}

struct ControlState {
    phase: Phase,
    /// The progress of each core.
    cores: Vec<CoreProgress>,
    /// Whether shutdown hooks of the program have still to return.
    hooks_pending: bool,
    /// Why the server ended on its own; the first waiter gets it.
    failure: Option<Error>,
    /// Wakers of tasks that wait for the end, with their numbers.
    waiting: Vec<(u64, Waker)>,
    /// The number of the last waiter.
    next_waiter: u64,
}

#[derive(Default)]
struct CoreProgress {
    /// The latest phase that the core has completed.
    done: Phase,
    /// Wakes the core when the phase changes.
    waker: Option<Waker>,
}

impl Control {
    pub(crate) fn new(cores: usize, hooks_pending: bool) -> Self {
        let state = ControlState {
            phase: Phase::Running,
            cores: (0..cores).map(|_| CoreProgress::default()).collect(),
            hooks_pending,
            failure: None,
            waiting: Vec::new(),
            next_waiter: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), phase: AtomicU8::new(0) }
    }

    /// Moves forward to `phase`; an earlier phase is ignored.
    pub(crate) fn advance(&self, phase: Phase) {
        self.change(|state| state.phase = state.phase.max(phase));
    }

    /// Notes that a core has completed a phase.
    pub(crate) fn core_done(&self, core: usize, phase: Phase) {
        self.change(|state| {
            let done = &mut state.cores[core].done;
            *done = phase.max(*done);
        });
    }

    /// Notes that the shutdown hooks have returned or will not run.
    pub(crate) fn hooks_done(&self) {
        self.change(|state| state.hooks_pending = false);
    }

    pub(crate) fn end(&self, outcome: Result) {
        let mut waiting = Vec::new();
        self.change(|state| {
            state.phase = Phase::Ended;
            state.failure = outcome.err();
            waiting = mem::take(&mut state.waiting);
        });
        for (_, waker) in waiting {
            contain("a waker of a task that waits for the server's end", || waker.wake());
        }
    }

    /// Polls for the server's end. `waiter` holds the number of the calling task.
    pub(crate) fn poll_ended(&self, waiter: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result> {
        let mut stale = Some(cx.waker().clone()); // cloned and dropped outside of the lock: foreign code
        let mut state = self.lock();
        let polled = match state.phase {
            Phase::Ended => Poll::Ready(state.failure.take().map_or(Ok(()), Err)),
            _ => {
                let former = state.take_waiter(*waiter);
                let waker = std::mem::replace(&mut stale, former);
                let number = *waiter.get_or_insert_with(|| {
                    state.next_waiter += 1;
                    state.next_waiter
                });
                state.waiting.extend(waker.map(|waker| (number, waker)));
                Poll::Pending
            }
        };
        drop(state);
        drop_contained("a waker", stale);
        polled
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn leave(&self, waiter: Option<u64>) {
        let left = self.lock().take_waiter(waiter);
        drop_contained("a waker", left);
    }

    fn change(&self, change: impl FnOnce(&mut ControlState)) {
        let mut state = self.lock();
        let before = state.phase;
        change(&mut state);
        self.phase.store(state.phase as u8, Ordering::SeqCst);
        let mut wakers = Vec::new();
        if state.phase != before {
            wakers.extend(state.cores.iter_mut().filter_map(|core| core.waker.take()));
        }
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes those who wait for the server to be empty, because the last connection has gone.
    pub(crate) fn emptied(&self) {
        if self.phase.load(Ordering::SeqCst) >= Phase::Draining as u8 {
            self.change(|_| {});
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Polls for `phase` or a later one. Only the one task that follows the phases on `core` may
    /// call this.
    pub(crate) fn poll_phase(&self, core: usize, phase: Phase, cx: &Context<'_>) -> Poll<Phase> {
        let mut state = self.lock();
        if state.phase >= phase {
            return Poll::Ready(state.phase);
        }
        state.cores[core].waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Blocks until the phase is `phase` or a later one.
    pub(crate) fn wait_for(&self, phase: Phase) -> Phase {
        self.wait_while(Deadline::NEVER, |state| state.phase < phase)
    }

    /// Blocks until the phase is later than `phase`, or until the deadline.
    pub(crate) fn wait_past(&self, phase: Phase, until: Deadline) -> Phase {
        self.wait_while(until, |state| state.phase <= phase)
    }

    /// Blocks until the shutdown hooks have returned, the phase is later than [`Phase::Asked`], or
    /// the deadline.
    pub(crate) fn wait_for_hooks(&self, until: Deadline) {
        self.wait_while(until, |state| state.phase <= Phase::Asked && state.hooks_pending);
    }

    /// Blocks until every core has drained, the shutdown hooks have returned and `is_empty` returns
    /// true. Returns false if a later phase or the deadline came first.
    pub(crate) fn wait_drained(&self, until: Deadline, is_empty: impl Fn() -> bool) -> bool {
        let is_busy = |state: &ControlState| {
            state.hooks_pending || !state.all_done(Phase::Draining) || !is_empty()
        };
        self.wait_while(until, |state| state.phase <= Phase::Draining && is_busy(state));
        !is_busy(&self.lock())
    }

    /// Blocks until every core has aborted its connections, or until the deadline.
    pub(crate) fn wait_aborted(&self, until: Deadline) {
        self.wait_while(until, |state| !state.all_done(Phase::Aborting));
    }

    /// Blocks until the server has ended.
    pub(crate) fn wait_ended(&self) -> Result {
        self.wait_for(Phase::Ended);
        self.lock().failure.take().map_or(Ok(()), Err)
    }

    fn wait_while(&self, until: Deadline, waits: impl Fn(&ControlState) -> bool) -> Phase {
        let mut state = self.lock();
        while waits(&state) {
            let left = until.remaining(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left.min(LONG));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.phase
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest single wait; a longer one is split, because the clock of the system could overflow.
const LONG: Duration = Duration::from_secs(3_600);

impl ControlState {
    fn take_waiter(&mut self, number: Option<u64>) -> Option<Waker> {
        let index = self.waiting.iter().position(|(waiter, _)| Some(*waiter) == number)?;
        Some(self.waiting.swap_remove(index).1)
    }

    fn all_done(&self, phase: Phase) -> bool {
        self.cores.iter().all(|core| core.done >= phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far above what any wait here takes.
    const FAR: Duration = Duration::from_secs(3_600);

    fn after(wait: Duration) -> Deadline {
        Deadline::after(Instant::now(), wait)
    }

    #[test]
    fn phases_only_go_forward() {
        let control = Control::new(1, false);
        control.advance(Phase::Aborting);
        control.advance(Phase::Draining);
        assert_eq!(control.phase(), Phase::Aborting);
        assert_eq!(control.wait_for(Phase::Draining), Phase::Aborting);
    }

    #[test]
    fn delay_ends_at_a_later_phase_or_its_deadline() {
        let control = Control::new(1, false);
        control.advance(Phase::Asked);
        let now = after(Duration::ZERO);
        assert_eq!(control.wait_past(Phase::Asked, now), Phase::Asked);
        control.advance(Phase::Aborting);
        for wait in [FAR, Duration::MAX] {
            assert_eq!(control.wait_past(Phase::Asked, after(wait)), Phase::Aborting);
        }
    }

    #[test]
    fn drain_waits_for_cores_hooks_and_connections() {
        let control = Control::new(2, true);
        let has_drained = |is_empty| control.wait_drained(after(Duration::ZERO), || is_empty);
        control.advance(Phase::Draining);
        control.core_done(0, Phase::Draining);
        control.hooks_done();
        assert!(!has_drained(true), "a core has not drained");
        control.core_done(1, Phase::Ended);
        assert!(!has_drained(false), "a connection is left");
        assert!(has_drained(true));
        assert!(control.wait_drained(after(FAR), || true));
        control.core_done(0, Phase::Aborting);
        control.wait_aborted(after(FAR));
    }

    #[test]
    fn later_phase_ends_every_wait() {
        let control = Control::new(1, true);
        control.advance(Phase::Aborting);
        control.wait_for_hooks(after(Duration::MAX));
        assert!(
            !control.wait_drained(after(Duration::MAX), || true),
            "the shutdown hooks have not run"
        );
    }
}
