//! Aborting a task of the calling core.

use super::current::try_with_current;
use crate::task::JoinHandle;

impl<T> JoinHandle<T> {
    /// Drops the task's future; a waiter gets a [`JoinError`](crate::JoinError) that [`is_aborted`]. A task that has
    /// ended, or whose core has, is left as it is; so this may be called anywhere, also in a
    /// destructor after the runtime's end.
    ///
    /// [`is_aborted`]: crate::JoinError::is_aborted
    pub fn abort(&self) {
        self.settle_aborted(|token, run| {
            try_with_current(|core| core.tasks.abort(token, run));
        });
    }
}
