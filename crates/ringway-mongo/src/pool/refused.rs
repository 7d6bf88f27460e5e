//! What a pool does when its server ends a new connection.

use std::rc::Rc;

use ringway_runtime::now_exact;

use super::Pool;
use crate::error::Error;

impl Pool {
    /// Whether connections of the pool can come back to it.
    fn has_others(&self) -> bool {
        self.in_use.get() > self.refusals.stale() || !self.idle.borrow().is_empty()
    }

    /// Whether the server has ended the connections that there were, and makes no other.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.refusals.has_ended_idle() && !self.has_others()
    }

    /// Takes that a connection could not be made. True if those who wait had better wait for the others.
    pub(super) fn waits_for_others(&self, generation: u64, error: &Error) -> bool {
        if !error.is_overload() || generation != self.generation() || !self.has_others() {
            return false;
        }
        if self.is_pausing() {
            return true;
        }
        let waits = self.refusals.begin_pause(error, self.greeting.options.adaptive_retries_max);
        if waits {
            self.wake_keeper();
        }
        waits
    }

    /// Whether no other connection is made for now. If all others are lost meanwhile, one is.
    pub(super) fn is_pausing(&self) -> bool {
        self.refusals.until().is_some_and(|until| now_exact() < until) && self.has_others()
    }

    /// Has another connection made for those who wait, if its time has come.
    pub(super) fn end_pause(self: &Rc<Self>) {
        if self.refusals.until().is_some_and(|until| until <= now_exact()) {
            self.refusals.end_pause();
            self.serve();
        }
    }

    /// Why the server takes no other connections than those that there are.
    pub(crate) fn why_no_other(&self) -> Option<String> {
        self.refusals.why()
    }
}
