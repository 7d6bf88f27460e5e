//! Wakes a task of the same core once, however many others ask for it before it runs.

use std::cell::Cell;
use std::task::Waker;

/// The waker of a task of this core, which is not user code.
pub(super) struct TaskWaker {
    /// The waker, which is taken out while it is being woken.
    waker: Cell<Option<Waker>>,
    /// Whether the task was woken or is running.
    is_woken: Cell<bool>,
}

impl TaskWaker {
    /// For a task that was just spawned, which runs without being woken.
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

    /// Marks the task as running: it need not be woken before [`end_turn`](Self::end_turn).
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
