//! A stream that a client has promised and not opened yet: its handles exist, its connection may
//! still be being made.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::call::codec::Codec;
use crate::call::status::Status;
use crate::stream::remote::{HandleEnd, HandleSide, StreamAt};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;
use crate::waiters;

/// Why a call ends whose client has dropped its sink.
pub(crate) const NOT_FINISHED: &str = "the sink was dropped without `finish()`";

/// The client's side: opens the stream and tells its handles where it is, from any thread.
/// Dropping it instead fails them.
pub(crate) struct PendingStream {
    shared: Arc<Mutex<PendingState>>,
}

/// A handle's side.
pub(crate) struct PendingHandle {
    shared: Arc<Mutex<PendingState>>,
    half: HandleSide,
}

struct PendingState {
    outcome: Option<Result<StreamAt, Status>>,
    pending: Option<Waker>,
    reader: SideState,
    writer: SideState,
}

/// One handle, before the stream is open.
#[derive(Default)]
struct SideState {
    waker: Option<Waker>,
    left: Option<HandleEnd>,
}

impl PendingStream {
    /// Promises a stream.
    pub(crate) fn new() -> Self {
        let state = PendingState {
            outcome: None,
            pending: None,
            reader: SideState::default(),
            writer: SideState::default(),
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// The promised stream's reader.
    pub(crate) fn streaming<T>(&self, codec: Codec<T>) -> Streaming<T> {
        let shared = Arc::clone(&self.shared);
        Streaming::opening(PendingHandle { shared, half: HandleSide::Reader }, codec)
    }

    /// The promised stream's writer.
    pub(crate) fn sink<T>(&self, codec: Codec<T>) -> Sink<T> {
        let shared = Arc::clone(&self.shared);
        Sink::opening(PendingHandle { shared, half: HandleSide::Writer }, codec)
    }

    /// Ready when a handle was dropped or has cancelled, so that there is nothing to open any
    /// more; with the reason, where there is one.
    pub(crate) fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            let halves = [(&state.reader.left, None), (&state.writer.left, Some(NOT_FINISHED))];
            for (left, why) in halves {
                match left {
                    Some(HandleEnd::Dropped) => return Poll::Ready(why.map(str::to_owned)),
                    Some(HandleEnd::Cancelled(reason)) => return Poll::Ready(Some(reason.clone())),
                    Some(HandleEnd::Finished) | None => {}
                }
            }
            let former = waker.renew(&mut state.pending);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }

    /// Tells the handles that the stream is open, or why it will not be. What they did meanwhile
    /// (finish, cancel, drop) is done to the stream now.
    pub(crate) fn complete(self, outcome: Result<StreamAt, Status>) {
        self.settle(outcome);
    }

    fn settle(&self, outcome: Result<StreamAt, Status>) {
        let mut state = lock(&self.shared);
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(outcome.clone());
        let left = [
            (HandleSide::Reader, state.reader.left.take()),
            (HandleSide::Writer, state.writer.left.take()),
        ];
        let wakers = [state.reader.waker.take(), state.writer.waker.take()];
        drop(state);
        waiters::wake_all(wakers.into_iter().flatten());
        if let Ok(at) = outcome {
            for (half, how) in left {
                if let Some(how) = how {
                    at.leave(half, how);
                }
            }
        }
    }
}

impl Drop for PendingStream {
    fn drop(&mut self) {
        self.settle(Err(Status::unavailable("the client has been closed")));
    }
}

impl PendingHandle {
    /// Where the stream is, once it is open.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<StreamAt, Status>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            if let Some(outcome) = &state.outcome {
                return Poll::Ready(outcome.clone());
            }
            let former = waker.renew(&mut state.waiting(self.half).waker);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }

    /// Parts from the stream, which may come to be open later.
    pub(crate) fn leave(self, how: HandleEnd) {
        let mut state = lock(&self.shared);
        match &state.outcome {
            None => {
                state.waiting(self.half).left = Some(how);
                let pending = state.pending.take();
                drop(state);
                pending.into_iter().for_each(waiters::wake);
            }
            Some(Ok(at)) => {
                let at = *at;
                drop(state);
                at.leave(self.half, how);
            }
            Some(Err(_)) => {}
        }
    }
}

impl PendingState {
    fn waiting(&mut self, half: HandleSide) -> &mut SideState {
        match half {
            HandleSide::Reader => &mut self.reader,
            HandleSide::Writer => &mut self.writer,
        }
    }
}

/// No foreign code runs under the lock, so a poisoned one guards sound content.
fn lock(state: &Mutex<PendingState>) -> MutexGuard<'_, PendingState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
