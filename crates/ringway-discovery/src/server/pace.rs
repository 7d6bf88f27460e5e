//! The pace of a log while a snapshot is made.
//!
//! The store keeps the history that a snapshot needs, and the log grows on the disk beside it. So while a snapshot is made,
//! the log goes only as far as the snapshot has come: whoever changes keys faster than the disk takes both, waits. By that every
//! snapshot comes to its end, and the memory and the files of a registry have a bound.

use std::task::Waker;

use crate::limits;

/// A snapshot that is being made, as the log knows it.
pub(super) struct Making {
    /// What part of it is on the disk, in thousandths.
    done: usize,
    /// Bytes of changes that the log was given since it began.
    logged: usize,
    /// Bytes that the log may be given at once, and until the snapshot is made.
    logged_first: usize,
    logged_max: usize,
    /// The log, if it waits for the snapshot.
    pub(super) waiting: Option<Waker>,
}

impl Making {
    /// A snapshot of keys of so many bytes, beside a log whose files have so many.
    pub(super) fn of(keys_bytes: usize, log_bytes: usize) -> Self {
        let logged_max = log_bytes + keys_bytes / limits::PACED_KEYS_SHARE;
        let logged_first = log_bytes / limits::UNPACED_LOG_SHARE;
        Self { done: 0, logged: 0, logged_first, logged_max, waiting: None }
    }

    pub(super) fn note_logged(&mut self, bytes: usize) {
        self.logged += bytes;
    }

    /// Whether the log may go on, when there were so many changes since the snapshot began.
    pub(super) fn allows(&self, changes: usize) -> bool {
        let so_far = |whole: usize| whole / 1_000 * self.done;
        self.logged <= self.logged_first + so_far(self.logged_max)
            && changes <= limits::UNPACED_CHANGES + so_far(limits::HISTORY_CHANGES_MAX)
    }

    /// The snapshot has come so far. Returns the log's waker, to be woken outside of the lock.
    pub(super) fn advance(&mut self, done: usize) -> Option<Waker> {
        self.done = done;
        self.waiting.take()
    }
}
