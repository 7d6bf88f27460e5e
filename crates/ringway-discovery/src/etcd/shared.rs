//! What a handle of a user and the task behind it share.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringway_runtime::contain;

/// A value that an owner and a task change, each waking the other.
pub(super) struct SharedState<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    value: T,
    owner: Option<Waker>,
    task: Option<Waker>,
}

impl<T> SharedState<T> {
    pub(super) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { value, owner: None, task: None }) }
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock().value)
    }

    /// Changes the value, and wakes the owner.
    pub(super) fn tell_owner(&self, change: impl FnOnce(&mut T)) {
        let mut inner = self.lock();
        change(&mut inner.value);
        let woken = inner.owner.take();
        drop(inner);
        wake(woken);
    }

    /// Changes the value, and wakes the task.
    pub(super) fn tell_task(&self, change: impl FnOnce(&mut T)) {
        let mut inner = self.lock();
        change(&mut inner.value);
        let woken = inner.task.take();
        drop(inner);
        wake(woken);
    }

    /// Looks at the value for the owner, who is woken by a change if there is nothing for it.
    pub(super) fn poll_owner<R>(
        &self,
        cx: &Context<'_>,
        look: impl FnOnce(&mut T) -> Option<R>,
    ) -> Poll<R> {
        self.poll(cx, look, |inner| &mut inner.owner)
    }

    /// Waits, as the task, until there is something for it.
    pub(super) async fn wait_as_task<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        poll_fn(|cx| self.poll(cx, &mut look, |inner| &mut inner.task)).await
    }

    fn poll<R>(
        &self,
        cx: &Context<'_>,
        look: impl FnOnce(&mut T) -> Option<R>,
        waker_of: impl FnOnce(&mut Inner<T>) -> &mut Option<Waker>,
    ) -> Poll<R> {
        let waker = cx.waker().clone();
        let mut inner = self.lock();
        if let Some(found) = look(&mut inner.value) {
            drop(inner);
            return Poll::Ready(found);
        }
        let former = waker_of(&mut inner).replace(waker);
        drop(inner);
        drop(former);
        Poll::Pending
    }

    /// No code of a user runs under the lock, so what a poisoned one holds is sound.
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task, whose executor may be anybody's.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        contain("a waker", || waker.wake());
    }
}
