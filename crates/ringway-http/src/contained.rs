//! Contains the panics of handlers: a panic costs only its own reply.

use std::pin::Pin;
use std::task::{Context, Poll};

use ringway_runtime::{contain, drop_contained};

use crate::error::{Error, Result};

/// The future of a handler, which stays on its core.
pub(crate) type Handling<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

const HANDLER: &str = "an HTTP handler";

/// The future of a handler; its first panic ends it.
pub(crate) struct Contained<'a, T>(Option<Handling<'a, T>>);

impl<'a, T> Contained<'a, T> {
    /// Calls a handler, which may panic before it returns its future.
    pub(crate) fn begin(begin: impl FnOnce() -> Handling<'a, T>) -> Self {
        Self(contain(HANDLER, begin))
    }
}

impl<T> Future for Contained<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let failed = || Err(Error::internal("the handler has failed"));
        let Some(handling) = &mut self.0 else { return Poll::Ready(failed()) };
        let outcome = match contain(HANDLER, || handling.as_mut().poll(cx)) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(outcome)) => outcome,
            None => failed(),
        };
        drop_contained(HANDLER, self.0.take());
        Poll::Ready(outcome)
    }
}

impl<T> Drop for Contained<'_, T> {
    fn drop(&mut self) {
        drop_contained(HANDLER, self.0.take());
    }
}
