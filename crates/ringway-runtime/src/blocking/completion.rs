//! A one-shot channel from another thread to a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::contain::{drop_waker, wake};

/// Makes a connected pair; both halves are `Send` if `T` is.
pub(crate) fn completion<T>() -> (Completer<T>, JobResult<T>) {
    let slot = ResultSlot { value: None, completer_gone: false, waker: None };
    let slot = Arc::new(Mutex::new(slot));
    (Completer { slot: slot.clone() }, JobResult { slot })
}

/// The sending half, for any thread. Dropping it unused ends the wait without a value.
pub(crate) struct Completer<T> {
    slot: Arc<Mutex<ResultSlot<T>>>,
}

/// The receiving half, a future of the value, or of `None` if the other half was dropped unused. A
/// value that nobody awaits any more is dropped on the completing thread.
pub(crate) struct JobResult<T> {
    slot: Arc<Mutex<ResultSlot<T>>>,
}

struct ResultSlot<T> {
    value: Option<T>,
    completer_gone: bool,
    waker: Option<Waker>,
}

impl<T> Completer<T> {
    /// Sends the value and wakes the task that awaits it.
    pub(crate) fn complete(self, value: T) {
        lock(&self.slot).value = Some(value);
        // Dropping `self` wakes.
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.slot);
        slot.completer_gone = true;
        let waiting = slot.waker.take();
        drop(slot);
        if let Some(waker) = waiting {
            wake(waker);
        }
    }
}

impl<T> JobResult<T> {
    /// Whether the value was sent or the other half dropped.
    pub(crate) fn is_finished(&self) -> bool {
        lock(&self.slot).completer_gone
    }
}

impl<T> Future for JobResult<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.slot);
        if slot.completer_gone {
            return Poll::Ready(slot.value.take());
        }
        if slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(slot);
        let waker = cx.waker().clone(); // unlocked, since it may run foreign code, as the drop below may
        let mut slot = lock(&self.slot);
        if slot.completer_gone {
            return Poll::Ready(slot.value.take());
        }
        let stale = slot.waker.replace(waker);
        drop(slot);
        drop_waker(stale);
        Poll::Pending
    }
}

impl<T> Drop for JobResult<T> {
    fn drop(&mut self) {
        let stale = lock(&self.slot).waker.take();
        drop_waker(stale);
    }
}

/// Locks the slot. No foreign code runs under the lock, so the slot is sound even if it is
/// poisoned.
fn lock<T>(slot: &Mutex<ResultSlot<T>>) -> MutexGuard<'_, ResultSlot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
