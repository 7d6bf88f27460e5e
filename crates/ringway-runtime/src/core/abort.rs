//! Aborting tasks of the calling core.

use super::current::try_with_current;
use crate::task::JoinHandle;

impl<T> JoinHandle<T> {
    /// Drops the task's future; whoever awaits it gets a [`JoinError`](crate::JoinError) that
    /// [`is_aborted`]. Does nothing if the task or its core has ended, so it may be called
    /// anywhere, even in a destructor after the end of the runtime.
    ///
    /// [`is_aborted`]: crate::JoinError::is_aborted
    pub fn abort(&self) {
        self.settle_aborted(|token, run| {
            try_with_current(|core| core.tasks.abort(token, run));
        });
    }
}
