//! The life of a server, as its handles, its supervisor and its cores see it.
//!
//! What the cores are to do is a state that each of them looks at, not a message that a full mailbox
//! could refuse: a core waits for the phase with a waker, and waking is never refused.

use std::mem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime::{Deadline, contain, drop_contained};

use crate::error::{Error, Result};

/// Only ever forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Running,
    /// A shutdown was asked for; everything goes on until its delay is over.
    Asked,
    Draining,
    Aborting,
    Ended,
}

/// The phase, for threads and cores to change and to wait for.
pub(crate) struct Control {
    state: Mutex<ControlState>,
    changed: Condvar,
    /// The phase once more, for those who only look at it.
    phase: AtomicU8,
}

struct ControlState {
    phase: Phase,
    /// How far each core has come.
    cores: Vec<CoreProgress>,
    /// The program is still to be told, or is being told, that the server was asked to stop.
    hooks_pending: bool,
    /// Why the server ended on its own; the first who waits gets it.
    failure: Option<Error>,
    /// Tasks that wait for the end, each by a number of its own.
    waiting: Vec<(u64, Waker)>,
    /// The number of the next one.
    next_waiter: u64,
}

#[derive(Default)]
struct CoreProgress {
    /// The latest phase with which the core is done.
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

    /// Goes forward to `phase`; going back is ignored.
    pub(crate) fn advance(&self, phase: Phase) {
        self.change(|state| state.phase = state.phase.max(phase));
    }

    /// A core is done with a phase, so far as it can be.
    pub(crate) fn core_done(&self, core: usize, phase: Phase) {
        self.change(|state| {
            let done = &mut state.cores[core].done;
            *done = phase.max(*done);
        });
    }

    /// The program was told of the shutdown, or is not to be told any more.
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
            contain("what waits for the server's end", || waker.wake());
        }
    }

    /// Ready when the server has ended; for the one who waits by the number in `waiter`.
    pub(crate) fn poll_ended(&self, waiter: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result> {
        let mut stale = Some(cx.waker().clone()); // foreign code, like its drop: not under the lock
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

    /// Nobody waits by this number any more.
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

    /// The last connection has gone: whoever waits for the server to be empty looks again.
    pub(crate) fn emptied(&self) {
        if self.phase.load(Ordering::SeqCst) >= Phase::Draining as u8 {
            self.change(|_| {});
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Ready when the phase is `phase` or a later one; for the one task by which `core` follows it.
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

    /// Blocks until `until`, or until the phase is later than `phase`.
    pub(crate) fn wait_past(&self, phase: Phase, until: Deadline) -> Phase {
        self.wait_while(until, |state| state.phase <= phase)
    }

    /// Blocks until the program has run its shutdown hooks, the phase is later than [`Phase::Asked`], or
    /// `until`.
    pub(crate) fn wait_for_hooks(&self, until: Deadline) {
        self.wait_while(until, |state| state.phase <= Phase::Asked && state.hooks_pending);
    }

    /// Blocks until every core is done with draining, the program has run its shutdown hooks and `is_empty`
    /// says so; false if the phase was a later one, or the time `until`, before that.
    pub(crate) fn wait_drained(&self, until: Deadline, is_empty: impl Fn() -> bool) -> bool {
        let is_busy = |state: &ControlState| {
            state.hooks_pending || !state.all_done(Phase::Draining) || !is_empty()
        };
        self.wait_while(until, |state| state.phase <= Phase::Draining && is_busy(state));
        !is_busy(&self.lock())
    }

    /// Blocks until every core is done with aborting, or until `until`.
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

/// One wait; a longer one is made of several, as the clock of the system has an end.
const LONG: Duration = Duration::from_secs(3_600);

impl ControlState {
    fn take_waiter(&mut self, number: Option<u64>) -> Option<Waker> {
        let place = self.waiting.iter().position(|(waiter, _)| Some(*waiter) == number)?;
        Some(self.waiting.swap_remove(place).1)
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
    fn a_delay_ends_with_a_later_phase_or_its_time() {
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
    fn a_drain_waits_for_the_cores_the_hooks_and_the_connections() {
        let control = Control::new(2, true);
        let has_drained = |is_empty| control.wait_drained(after(Duration::ZERO), || is_empty);
        control.advance(Phase::Draining);
        control.core_done(0, Phase::Draining);
        control.hooks_done();
        assert!(!has_drained(true), "a core has not");
        control.core_done(1, Phase::Ended);
        assert!(!has_drained(false), "a connection is left");
        assert!(has_drained(true));
        assert!(control.wait_drained(after(FAR), || true));
        control.core_done(0, Phase::Aborting);
        control.wait_aborted(after(FAR));
    }

    #[test]
    fn a_later_phase_ends_the_wait_for_what_has_not_happened() {
        let control = Control::new(1, true);
        control.advance(Phase::Aborting);
        control.wait_for_hooks(after(Duration::MAX));
        assert!(
            !control.wait_drained(after(Duration::MAX), || true),
            "nobody run its shutdown hooks"
        );
    }
}
