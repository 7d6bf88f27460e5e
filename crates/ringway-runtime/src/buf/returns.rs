//! Buffers that other threads return.

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

/// Buffers whose last reader ended on another thread. Their core collects them when it next needs
/// one, and is woken if it sleeps because it has none.
///
/// As with the mailbox, only a waiting core costs other threads a system call. The core sets
/// `awaited`, checks again, and sleeps only if there is no buffer; a returning thread adds its
/// buffer first, then takes the flag, and signals if it was set. Every change of `awaited` is a
/// read-modify-write, so one of the two always sees the other.
pub(crate) struct Returns {
    ids: Mutex<Vec<u16>>,
    any: AtomicBool,
    awaited: AtomicBool,
    /// The eventfd that wakes the core; gone when the core is.
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

    /// Takes the buffers returned since the last call.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u16> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        // Cleared before the list is taken: a later return sets the flag again.
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the next return wake the core; `false` if a buffer is there already.
    pub(crate) fn await_next(&self) -> bool {
        self.awaited.swap(true, Ordering::AcqRel);
        !self.any.load(Ordering::Acquire)
    }

    /// Returns a buffer from another thread.
    pub(crate) fn push(&self, id: u16) {
        if !self.leave(id) {
            return;
        }
        if let Some(eventfd) = self.eventfd.upgrade() {
            // A full counter means that the core is about to wake anyway.
            let _already_signalled = rustix::io::write(&eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Adds a buffer, and tells whether the core must be signalled.
    fn leave(&self, id: u16) -> bool {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.any.store(true, Ordering::Release);
        self.awaited.swap(false, Ordering::AcqRel)
    }
}
