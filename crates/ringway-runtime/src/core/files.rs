//! Operations on files between those who wait for them and the driver.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Core;
use super::file_ops::{Ending, FileOutcome, core_gone};
use crate::contain::{drop_waker, wake};
use crate::driver::Key;
use crate::driver::files::{FileAnswer, FileDescriptor, FileEnd, FileOp};

impl Core {
    /// Starts an operation that somebody waits for, once it is its turn, and tells its name.
    ///
    /// # Errors
    /// The operation, where it is for the blocking pool, or why there is no turn for it.
    pub(crate) fn start_file_op(&self, op: FileOp) -> Result<Key, Result<FileOp, io::Error>> {
        if self.files.has_turn() {
            return self.begin(op, true).map_err(Ok);
        }
        self.files.enqueue(op).map_err(Err)
    }

    /// Starts an operation of which nobody hears.
    ///
    /// # Errors
    /// The operation, where it is for the blocking pool.
    pub(crate) fn detach_file_op(&self, op: FileOp) -> Result<(), FileOp> {
        self.begin(op, false).map(drop)
    }

    fn begin(&self, op: FileOp, is_wanted: bool) -> Result<Key, FileOp> {
        let name = self.files.insert(is_wanted);
        match self.hand_over(name, op) {
            None => Ok(name),
            Some(op) => {
                self.files.remove(name);
                Err(op)
            }
        }
    }

    fn hand_over(&self, name: Key, op: FileOp) -> Option<FileOp> {
        let refused = self.driver.borrow_mut().start_file_op(name, op);
        if refused.is_none() {
            self.count_open(1);
            self.files.count(1);
        }
        refused
    }

    pub(crate) fn poll_file_op(&self, name: Key, cx: &mut Context<'_>) -> Poll<FileOutcome> {
        let mut waker = Some(cx.waker().clone());
        let outcome = self.files.take_outcome(name, &mut waker);
        drop_waker(waker);
        outcome.map_or(Poll::Pending, Poll::Ready)
    }

    /// Nobody waits any more. What the kernel has in hand keeps its memory and its descriptor until it is done.
    pub(crate) fn abandon_file_op(&self, name: Key) {
        let (is_under_way, ending) = self.files.give_up(name);
        if is_under_way {
            self.driver.borrow_mut().cancel_file_op(name);
        }
        drop_waker(ending.waker);
        self.dispose(ending.answer, ending.op);
    }

    pub(super) fn on_file_ended(&self, name: Key, end: FileEnd) {
        self.count_open(-1);
        self.files.count(-1);
        let FileEnd { op, answer } = end;
        self.dispose(None, op);
        self.settle_file_op(self.files.end(name, Ok(answer)));
        while self.files.has_turn()
            && let Some((name, op)) = self.files.dequeue()
        {
            if let Some(op) = self.hand_over(name, op) {
                self.settle_file_op(self.files.end(name, Err(op)));
            }
        }
    }

    /// Whoever waits hears that the core has ended; what was under way is the former driver's affair.
    pub(super) fn end_file_ops(&self) {
        while let Some((_, op)) = self.files.dequeue() {
            self.dispose(None, Some(op));
        }
        for name in self.files.names() {
            self.settle_file_op(self.files.end(name, Ok(Err(core_gone()))));
        }
    }

    fn settle_file_op(&self, ending: Ending) {
        let Ending { waker, answer, op } = ending;
        self.dispose(answer, op);
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    /// Drops what nobody waits for: a file that was opened is closed again, and so is one of which this
    /// operation had the last share.
    fn dispose(&self, answer: Option<io::Result<FileAnswer>>, op: Option<FileOp>) {
        if let Some(Ok(FileAnswer::Opened(file))) = answer {
            self.close_file(file);
        }
        let shared = op.and_then(FileOp::into_shared);
        if let Some(file) = shared.and_then(Arc::into_inner) {
            self.close_file(file);
        }
    }

    /// Closes a descriptor that nobody else has, without waiting where the driver can do that.
    fn close_file(&self, file: FileDescriptor) {
        // An operation that comes back is dropped, which closes.
        let _closed_here = self.detach_file_op(FileOp::Close(file));
    }
}
