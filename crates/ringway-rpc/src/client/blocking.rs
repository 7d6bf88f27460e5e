//! Waiting for calls on threads that may block.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use ringway_runtime::CoreHandle;

use crate::status::Status;

/// Blocks until `call` is over.
pub(super) fn wait<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    if CoreHandle::is_here() {
        let why = "a core must not block: await the call, or wait for it on another thread";
        return Err(Status::failed_precondition(why));
    }
    let mut call = pin!(call);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match call.as_mut().poll(&mut cx) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
