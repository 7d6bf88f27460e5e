//! A bounded queue between a task of a core and a handle on another thread.
//!
//! It has one sender and one receiver, each on its own thread. The receiver takes all items under
//! one lock. The sender ends the pipe with an `E`, which the receiver gets after the items, or at
//! once if the sender aborts. The receiver closes the pipe with a `C`, which the sender gets at
//! once.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ringway_runtime::drop_each;

use crate::limits;
use crate::waiters::{self, LatestWaker};

/// An item of a pipe; the pipe bounds the sum of its items' bytes.
pub(crate) trait Weigh {
    fn bytes(&self) -> usize;
}

/// The sending end. Dropping it ends the pipe.
pub(crate) struct Sender<T, E, C> {
    shared: Arc<Mutex<PipeState<T, E, C>>>,
}

/// The receiving end. Dropping it closes the pipe.
pub(crate) struct Receiver<T, E, C> {
    shared: Arc<Mutex<PipeState<T, E, C>>>,
}

struct PipeState<T, E, C> {
    items: VecDeque<T>,
    bytes: usize,
    ended: bool,
    aborted: bool,
    end: Option<E>,
    closed: bool,
    close: Option<C>,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

/// The description of items for logs of their panics.
const ITEM: &str = "what was left in a pipe";

/// Makes a pipe.
pub(crate) fn pipe<T, E, C>() -> (Sender<T, E, C>, Receiver<T, E, C>) {
    let state = PipeState {
        items: VecDeque::new(),
        bytes: 0,
        ended: false,
        aborted: false,
        end: None,
        closed: false,
        close: None,
        sender: None,
        receiver: None,
    };
    let shared = Arc::new(Mutex::new(state));
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

impl<T: Weigh, E, C> Sender<T, E, C> {
    /// Polls for room for an item of any size.
    ///
    /// The waker is always stored, so that a task which then waits for something else is woken by a
    /// close.
    ///
    /// # Errors
    /// Fails when the receiver has closed the pipe, with the receiver's value, once.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Option<C>>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            if state.closed {
                return Poll::Ready(Err(state.close.take()));
            }
            let former = waker.renew(&mut state.sender);
            let room = state.items.len() < limits::PIPE_MESSAGES_MAX
                && state.bytes < limits::PIPE_BYTES_MAX;
            drop(state);
            waiters::discard(former);
            if room { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
    }

    /// Adds an item, even without room.
    ///
    /// # Errors
    /// Fails like [`poll_room`](Self::poll_room); the item is then dropped.
    pub(crate) fn push(&self, item: T) -> Result<(), Option<C>> {
        let mut state = lock(&self.shared);
        if state.closed {
            return Err(state.close.take());
        }
        state.bytes += item.bytes();
        state.items.push_back(item);
        wake(state, |state| &mut state.receiver);
        Ok(())
    }

    /// Ends the pipe: the receiver gets `end` after the items.
    pub(crate) fn end(self, end: E) {
        lock(&self.shared).end = Some(end);
    }

    /// Ends the pipe: the receiver gets `end` now, and the items are dropped.
    pub(crate) fn abort(self, end: E) {
        let mut state = lock(&self.shared);
        state.end = Some(end);
        state.aborted = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop_each(ITEM, items);
    }
}

impl<T, E, C> Drop for Sender<T, E, C> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.ended = true;
        wake(state, |state| &mut state.receiver);
    }
}

impl<T, E, C> Receiver<T, E, C> {
    /// Takes all items into `items`, which must be empty.
    ///
    /// # Errors
    /// Fails when there are no items and the pipe has ended, with the sender's value, once.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        items: &mut VecDeque<T>,
    ) -> Poll<Result<(), Option<E>>> {
        ready!(self.poll_some(cx, items));
        if items.is_empty() {
            return Poll::Ready(Err(lock(&self.shared).end.take()));
        }
        Poll::Ready(Ok(()))
    }

    /// Polls like [`poll_take`](Self::poll_take), but does not take the end.
    pub(crate) fn poll_some(&self, cx: &mut Context<'_>, items: &mut VecDeque<T>) -> Poll<()> {
        debug_assert!(items.is_empty());
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            if !state.items.is_empty() {
                std::mem::swap(&mut state.items, items);
                state.bytes = 0;
                wake(state, |state| &mut state.sender);
                return Poll::Ready(());
            }
            if state.ended {
                return Poll::Ready(());
            }
            wait(state, waker)
        })
    }

    /// Polls for an abort of the sender; returns the sender's value, once.
    pub(crate) fn poll_aborted(&self, cx: &mut Context<'_>) -> Poll<Option<E>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            if state.aborted && state.ended {
                return Poll::Ready(state.end.take());
            }
            wait(state, waker)
        })
    }

    /// Closes the pipe with a value for the sender, and takes the remaining items: a pushed item is
    /// among them, or its push fails. A waiting receiver still waits for the end.
    pub(crate) fn take_last(&self, close: C) -> VecDeque<T> {
        shut(&self.shared, Some(close))
    }

    /// Closes the pipe with a value for the sender, and drops the remaining items.
    pub(crate) fn close(&self, close: C) {
        drop_each(ITEM, shut(&self.shared, Some(close)));
    }
}

impl<T, E, C> Drop for Receiver<T, E, C> {
    fn drop(&mut self) {
        drop_each(ITEM, shut(&self.shared, None));
    }
}

/// Closes the pipe, unless it is closed already. Returns the remaining items.
fn shut<T, E, C>(shared: &Mutex<PipeState<T, E, C>>, close: Option<C>) -> VecDeque<T> {
    let mut state = lock(shared);
    if state.closed {
        return VecDeque::new();
    }
    state.closed = true;
    state.close = close;
    let items = std::mem::take(&mut state.items);
    wake(state, |state| &mut state.sender);
    items
}

/// Locks the state. No foreign code runs under the lock, so after a panic its content is still
/// valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores the receiver's waker.
fn wait<T, E, C, R>(
    mut state: MutexGuard<'_, PipeState<T, E, C>>,
    waker: &mut LatestWaker<'_>,
) -> Poll<R> {
    let former = waker.renew(&mut state.receiver);
    drop(state);
    waiters::discard(former);
    Poll::Pending
}

/// Wakes one side after releasing the lock.
fn wake<S>(mut state: MutexGuard<'_, S>, waiter: impl FnOnce(&mut S) -> &mut Option<Waker>) {
    let waker = waiter(&mut state).take();
    drop(state);
    waker.into_iter().for_each(waiters::wake);
}
