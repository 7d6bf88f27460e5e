//! A call that is awaited on another thread than its core: in tokio tasks, on plain threads, or on other
//! cores.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use ringway_net::remote::RemoteTask;

use super::outcome::CallOutcome;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::limits;
use crate::remote::mailbox;

/// The awaiting side. Dropping it cancels the call.
pub(super) struct RemoteCall {
    task: RemoteTask<CallOutcome>,
    method: &'static Method,
    /// The time by which the core must have reported the outcome, if the call has a deadline.
    until: Option<Instant>,
}

impl RemoteCall {
    /// Starts or continues the call on a core. `deadline` is the call's, if it is known.
    pub(super) fn start<C>(
        core: u32,
        call: C,
        method: &'static Method,
        deadline: Option<Instant>,
    ) -> Self
    where
        C: Future<Output = CallOutcome> + Unpin + Send + 'static,
    {
        let until = deadline.and_then(|deadline| deadline.checked_add(limits::REMOTE_GRACE));
        let (task, start) = RemoteTask::new("rpc call from another thread", move || call);
        mailbox::post(core, Box::new(start));
        Self { task, method, until }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        if let Poll::Ready(outcome) = Pin::new(&mut self.task).poll(cx) {
            let gone = |_| Err(Status::unavailable("the core that made the call has ended"));
            return Poll::Ready(outcome.unwrap_or_else(gone));
        }
        if self.until.is_some_and(|until| until <= Instant::now()) {
            let why = "the deadline passed, and the core that makes the call is held up";
            return Poll::Ready(Err(Status::deadline_exceeded(why).of_call(self.method)));
        }
        Poll::Pending
    }

    /// The time at which a blocked caller polls again even if nothing has woken it.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}
