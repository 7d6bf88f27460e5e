//! The cancellation of a call, which several threads may look at.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::status::{Code, Status};

/// Set once.
#[derive(Default)]
pub(super) struct Cancel {
    cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    status: Option<Status>,
    /// As many as there are futures that wait, which keep the index of theirs.
    waiting: Vec<Option<Waker>>,
}

impl Cancel {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.lock().status.clone()
    }

    pub(super) fn cancel(&self, code: Code, reason: &str) {
        let mut state = self.lock();
        if state.status.is_some() {
            return;
        }
        state.status = Some(Status::new(code, reason.to_owned()));
        let waiting = std::mem::take(&mut state.waiting);
        self.cancelled.store(true, Ordering::Release);
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// No foreign code runs under the lock, so a poisoned one guards sound content.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the cancellation of a call; made by [`Context::cancelled`](super::Context::cancelled).
#[must_use = "a future does nothing until it is awaited"]
pub struct Cancelled {
    cancel: Arc<Cancel>,
    place: Option<usize>,
}

impl Cancelled {
    pub(super) fn new(cancel: Arc<Cancel>) -> Self {
        Self { cancel, place: None }
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.cancel.lock();
        if state.status.is_some() {
            return Poll::Ready(());
        }
        let free = || state.waiting.iter().position(Option::is_none);
        let place = match this.place.or_else(free) {
            Some(place) => place,
            None => {
                state.waiting.push(None);
                state.waiting.len() - 1
            }
        };
        this.place = Some(place);
        state.waiting[place] = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        if let Some(waker) = self.cancel.lock().waiting.get_mut(place) {
            *waker = None;
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("cancelled", &self.cancel.is_cancelled()).finish()
    }
}
