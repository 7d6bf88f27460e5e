//! Counting tasks and waiting for their end.

use std::cell::Cell;

use ringway_runtime::sync::Notify;

/// Counts running tasks, so that others can wait for their end.
#[derive(Default)]
pub(crate) struct Running {
    count: Cell<usize>,
    ended: Notify,
}

/// One running task, until it is dropped.
pub(crate) struct Runs<'a>(&'a Running);

impl Running {
    pub(crate) fn begin(&self) -> Runs<'_> {
        self.count.set(self.count.get() + 1);
        Runs(self)
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn ended(&self) {
        while self.count.get() > 0 {
            self.ended.notified().await;
        }
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.ended.notify_waiters();
    }
}
