//! How others of the core have a task run: once, however many ask before it does.

use std::cell::Cell;
use std::task::Waker;

/// The waker of a task of this core, which is no foreign code.
pub(super) struct TaskWaker {
    /// Taken for the moment in which it is woken.
    waker: Cell<Option<Waker>>,
    /// It was woken, or runs right now.
    is_woken: Cell<bool>,
}

impl TaskWaker {
    /// Of a task that was spawned, and runs by itself first of all.
    pub(super) fn new() -> Self {
        Self { waker: Cell::new(None), is_woken: Cell::new(true) }
    }

    #[inline]
    pub(super) fn wake(&self) {
        if self.is_woken.replace(true) {
            return;
        }
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            self.waker.set(Some(waker));
        }
    }

    /// The task runs: until it has ended its turn, nobody needs to wake it.
    #[inline]
    pub(super) fn begin_turn(&self, latest: &Waker) {
        self.is_woken.set(true);
        let known = self.waker.take().filter(|waker| waker.will_wake(latest));
        self.waker.set(Some(known.unwrap_or_else(|| latest.clone())));
    }

    #[inline]
    pub(super) fn end_turn(&self) {
        self.is_woken.set(false);
    }
}
