//! The future of a task, whose panics are contained.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::contain::{drop_contained, panic_message};

pin_project! {
    /// A task's future, and who is told how it ended. An async block would hold the future twice:
    /// where it was captured, and where it is pinned. Both fields are `None` once the task has ended.
    pub(super) struct TaskBody<F, S> {
        #[pin]
        future: Option<F>,
        settle: Option<S>,
    }
}

impl<F: Future, S: FnOnce(Result<F::Output, String>)> TaskBody<F, S> {
    /// Makes the body of a task; `settle` is called with the output of `future`, or with the message
    /// of its panic.
    pub(super) fn new(future: F, settle: S) -> Self {
        Self { future: Some(future), settle: Some(settle) }
    }
}

impl<F: Future, S: FnOnce(Result<F::Output, String>)> Future for TaskBody<F, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let body = self.project();
        let Poll::Ready(ended) = poll_contained(body.future, cx) else {
            return Poll::Pending;
        };
        let settle = body.settle.take().expect("not polled after its end");
        settle(ended);
        Poll::Ready(())
    }
}

/// Polls a future, which is dropped when it has ended. Panics of both become errors.
fn poll_contained<F: Future>(
    mut slot: Pin<&mut Option<F>>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, String>> {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let future = slot.as_mut().as_pin_mut();
        future.expect("not polled after its end").poll(cx)
    }));
    let outcome = match polled {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(output)) => Ok(output),
        Err(panic) => Err(panic_message(panic)),
    };
    let dropped = catch_unwind(AssertUnwindSafe(|| slot.set(None)));
    Poll::Ready(match (outcome, dropped) {
        (Ok(output), Err(panic)) => {
            drop_contained("the destructor of a task's result", output);
            Err(panic_message(panic))
        }
        (outcome, _) => outcome,
    })
}
