//! Whether a server has stopped serving new calls, for handlers that would not end by themselves.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::waiters::{self, Waiters};

/// Whether one core of a server drains. Handlers read it from any thread.
#[derive(Default)]
pub(crate) struct Drain {
    begun: AtomicBool,
    waiting: Mutex<Waiters>,
}

impl Drain {
    /// Notifies all waiting futures.
    pub(crate) fn begin(&self) {
        let mut waiting = self.lock();
        self.begun.store(true, Ordering::Release);
        let woken = waiting.take_all();
        drop(waiting);
        waiters::wake_all(woken);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Locks the waiters. No foreign code runs under the lock, so after a panic its content is
    /// still valid.
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the server stops serving new calls; made by [`Context::draining`](super::Context::draining).
#[must_use = "a future does nothing until it is awaited"]
pub struct Draining {
    drain: Arc<Drain>,
    waiter: Option<usize>,
}

impl Draining {
    pub(super) fn new(drain: Arc<Drain>) -> Self {
        Self { drain, waiter: None }
    }
}

impl Future for Draining {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        waiters::poll_with(cx.waker(), |waker| {
            let mut waiting = this.drain.lock();
            if this.drain.has_begun() {
                return Poll::Ready(());
            }
            let former = waiting.wait(&mut this.waiter, waker);
            drop(waiting);
            waiters::discard(former);
            Poll::Pending
        })
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        let left = self.drain.lock().leave(&mut self.waiter);
        waiters::discard(left);
    }
}

impl fmt::Debug for Draining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draining").field("begun", &self.drain.has_begun()).finish()
    }
}
