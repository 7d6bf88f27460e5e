//! The end of a call, which several threads may observe.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::call::status::{Code, Status};
use crate::waiters::{self, Waiters};

/// How a call has ended. Only the first end counts.
#[derive(Default)]
pub(super) struct ContextEnd {
    cancelled: AtomicBool,
    state: Mutex<EndState>,
}

#[derive(Default)]
struct EndState {
    how: Option<How>,
    waiting: Waiters,
}

enum How {
    Answered,
    Cancelled(Status),
}

impl ContextEnd {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns why the call was cancelled; `None` if it was not.
    pub(super) fn reason(&self) -> Option<Status> {
        self.lock().reason()
    }

    pub(super) fn answer(&self) {
        let state = self.lock();
        if state.how.is_none() {
            Self::end(state, How::Answered);
        }
    }

    pub(super) fn cancel(&self, code: Code, reason: &str) {
        let state = self.lock();
        if state.how.is_none() {
            self.cancelled.store(true, Ordering::Release);
            Self::end(state, How::Cancelled(Status::new(code, reason.to_owned())));
        }
    }

    fn end(mut state: MutexGuard<'_, EndState>, how: How) {
        state.how = Some(how);
        let waiting = state.waiting.take_all();
        drop(state);
        waiters::wake_all(waiting);
    }

    /// Locks the state. No foreign code runs under the lock, so after a panic its content is still
    /// valid.
    fn lock(&self) -> MutexGuard<'_, EndState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndState {
    fn reason(&self) -> Option<Status> {
        match &self.how {
            Some(How::Cancelled(status)) => Some(status.clone()),
            Some(How::Answered) | None => None,
        }
    }
}

/// Waits for the end of a call; made by [`Context::done`](super::Context::done).
#[must_use = "a future does nothing until it is awaited"]
pub struct Done {
    end: Arc<ContextEnd>,
    waiter: Option<usize>,
}

impl Done {
    pub(super) fn new(end: Arc<ContextEnd>) -> Self {
        Self { end, waiter: None }
    }
}

impl Future for Done {
    type Output = Option<Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Status>> {
        let this = &mut *self;
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = this.end.lock();
            if state.how.is_some() {
                return Poll::Ready(state.reason());
            }
            let former = state.waiting.wait(&mut this.waiter, waker);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let left = self.end.lock().waiting.leave(&mut self.waiter);
        waiters::discard(left);
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("cancelled", &self.end.is_cancelled()).finish()
    }
}
