//! A stream that a client has promised but not opened yet: its handles exist, while its connection
//! may still be connecting.

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

/// The reason why a call ends if the client drops its sink.
pub(crate) const NOT_FINISHED: &str = "the sink was dropped without `finish()`";

/// The client's side: opens the stream and tells its handles its location, on any thread. Dropping
/// it fails the handles.
pub(crate) struct PendingStream {
    shared: Arc<Mutex<PendingState>>,
}

/// A handle's side.
pub(crate) struct PendingHandle {
    shared: Arc<Mutex<PendingState>>,
    side: HandleSide,
}

struct PendingState {
    outcome: Option<Result<StreamAt, Status>>,
    pending: Option<Waker>,
    reader: SideState,
    writer: SideState,
}

/// The state of one handle before the stream is open.
#[derive(Default)]
struct SideState {
    waker: Option<Waker>,
    left: Option<HandleEnd>,
}

impl PendingStream {
    /// Makes a promised stream.
    pub(crate) fn new() -> Self {
        let state = PendingState {
            outcome: None,
            pending: None,
            reader: SideState::default(),
            writer: SideState::default(),
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Makes the reader of the promised stream.
    pub(crate) fn streaming<T>(&self, codec: Codec<T>) -> Streaming<T> {
        let shared = Arc::clone(&self.shared);
        Streaming::opening(PendingHandle { shared, side: HandleSide::Reader }, codec)
    }

    /// Makes the writer of the promised stream.
    pub(crate) fn sink<T>(&self, codec: Codec<T>) -> Sink<T> {
        let shared = Arc::clone(&self.shared);
        Sink::opening(PendingHandle { shared, side: HandleSide::Writer }, codec)
    }

    /// Ready when a handle was dropped or has cancelled, so that the stream need not be opened;
    /// with the reason, if there is one.
    pub(crate) fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            let sides = [(&state.reader.left, None), (&state.writer.left, Some(NOT_FINISHED))];
            for (left, why) in sides {
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

    /// Tells the handles that the stream is open, or why it will not be. Applies to the stream what
    /// they did before (finish, cancel, drop).
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
            for (side, how) in left {
                if let Some(how) = how {
                    at.leave(side, how);
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
    /// Polls for the location of the opened stream.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<StreamAt, Status>> {
        waiters::poll_with(cx.waker(), |waker| {
            let mut state = lock(&self.shared);
            if let Some(outcome) = &state.outcome {
                return Poll::Ready(outcome.clone());
            }
            let former = waker.renew(&mut state.waiting(self.side).waker);
            drop(state);
            waiters::discard(former);
            Poll::Pending
        })
    }

    /// Detaches from the stream; takes effect when the stream opens.
    pub(crate) fn leave(self, how: HandleEnd) {
        let mut state = lock(&self.shared);
        match &state.outcome {
            None => {
                state.waiting(self.side).left = Some(how);
                let pending = state.pending.take();
                drop(state);
                pending.into_iter().for_each(waiters::wake);
            }
            Some(Ok(at)) => {
                let at = *at;
                drop(state);
                at.leave(self.side, how);
            }
            Some(Err(_)) => {}
        }
    }
}

impl PendingState {
    fn waiting(&mut self, side: HandleSide) -> &mut SideState {
        match side {
            HandleSide::Reader => &mut self.reader,
            HandleSide::Writer => &mut self.writer,
        }
    }
}

/// Locks the state. No foreign code runs under the lock, so after a panic its content is still
/// valid.
fn lock(state: &Mutex<PendingState>) -> MutexGuard<'_, PendingState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
