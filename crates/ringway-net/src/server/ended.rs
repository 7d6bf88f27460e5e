//! The end of a server as a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::handle::ServerHandle;
use crate::error::Result;

/// Waits until a server has ended; made by [`ServerHandle::ended`]. It counts as a handle, so the
/// server does not shut down when all other handles are dropped.
#[must_use = "a future does nothing until it is awaited"]
pub struct Ended {
    handle: ServerHandle,
    waiter: Option<u64>,
}

impl Ended {
    pub(crate) fn new(handle: ServerHandle) -> Self {
        Self { handle, waiter: None }
    }
}

impl Future for Ended {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result> {
        let this = &mut *self;
        this.handle.control().poll_ended(&mut this.waiter, cx)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.handle.control().leave(self.waiter);
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ended").field(&self.handle.addresses()).finish()
    }
}
