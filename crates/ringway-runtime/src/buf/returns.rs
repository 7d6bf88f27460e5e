//! How buffers come home that were read elsewhere.

use std::os::fd::OwnedFd;
use std::sync::{PoisonError, Weak};

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::Mutex;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(all(test, loom))]
mod loom_tests;

/// Buffers whose last reader ended on another thread. Their core looks when it next lends one, and
/// is woken if it sleeps for want of one.
///
/// As with the mailbox, only a core that waits costs others a system call. It sets `awaited`, looks
/// once more, and sleeps only if nothing is there; who brings a buffer leaves it first and takes the
/// flag afterwards, and signals if it was set. Every change of `awaited` is a read-modify-write, so
/// of the two one always sees the other.
pub(crate) struct Returns {
    ids: Mutex<Vec<u16>>,
    any: AtomicBool,
    awaited: AtomicBool,
    /// Wakes the core; gone when the core is.
    eventfd: Weak<OwnedFd>,
}

impl Returns {
    pub(crate) fn new(eventfd: Weak<OwnedFd>) -> Self {
        Self {
            ids: Mutex::new(Vec::new()),
            any: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            eventfd,
        }
    }

    /// What has come since the last look.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u16> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Before the list is taken: what comes behind it will set the flag again.
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has the next buffer wake the core. `false`: one is there already.
    pub(crate) fn await_next(&self) -> bool {
        self.awaited.swap(true, Ordering::AcqRel);
        !self.any.load(Ordering::Acquire)
    }

    /// Brings a buffer home from another thread.
    pub(crate) fn push(&self, id: u16) {
        if !self.leave(id) {
            return;
        }
        if let Some(eventfd) = self.eventfd.upgrade() {
            // A full counter means that the core is about to wake anyway.
            let _already_signalled = rustix::io::write(&eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Leaves a buffer; whether the core sleeps until it is told.
    fn leave(&self, id: u16) -> bool {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.any.store(true, Ordering::Release);
        self.awaited.swap(false, Ordering::AcqRel)
    }
}
