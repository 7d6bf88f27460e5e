//! Runs the interceptors of one call on the call's core.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ringway_runtime::{self as runtime, Sleep, contain, panic_message};

use super::interceptor::{
    self, ClientInterceptor, IncomingReply, InnerCall, InterceptedReply, Scope,
};
use crate::call::method::Method;
use crate::call::status::Status;
use crate::limits;
use crate::stream::pending::PendingStream;

/// The running interceptors of a call. Dropping it runs user code.
pub(super) struct Interception {
    method: &'static Method,
    future: InterceptedReply,
    scope: Rc<Scope>,
    /// Set when an interceptor waits for something other than the inner call, with its time.
    timer: Option<(Instant, Sleep)>,
}

impl Interception {
    pub(super) fn start(
        interceptors: Rc<[ClientInterceptor]>,
        inner: Box<dyn InnerCall>,
        deadline: Option<Instant>,
    ) -> Self {
        let method = inner.method();
        let scope = Rc::new(Scope { deadline, ..Scope::default() });
        let future = interceptor::start(interceptors, inner, Rc::clone(&scope));
        Self { method, future, scope, timer: None }
    }

    /// Runs a streaming call: opens the stream and waits for its end.
    pub(super) async fn see_stream(mut self, pending: PendingStream) {
        self.scope.pending.replace(Some(pending));
        let outcome = poll_fn(|cx| match self.poll_abandoned(cx) {
            Poll::Ready(cancelled) => Poll::Ready(Err(cancelled)),
            Poll::Pending => self.poll(cx),
        })
        .await;
        if let Some(pending) = self.scope.pending.take() {
            let why = "an interceptor of the client answered a call with streams early";
            pending.complete(Err(outcome.err().unwrap_or_else(|| Status::internal(why))));
        }
    }

    /// Ready when all handles of a stream that is not open yet are gone.
    fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<Status> {
        let pending = self.scope.pending.borrow();
        let Some(pending) = &*pending else {
            return Poll::Pending;
        };
        let reason = ready!(pending.poll_abandoned(cx)).unwrap_or_default();
        Poll::Ready(Status::cancelled(reason).of_call(self.method))
    }

    /// Polls the interceptors.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<IncomingReply, Status>> {
        self.scope.is_polled.set(false);
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(outcome.map_err(|status| self.marked(status))),
            Ok(Poll::Pending) => self.poll_deadline(cx).map(Err),
            Err(panic) => Poll::Ready(Err(self.on_panic(panic))),
        }
    }

    /// Marks the failure if the inner call may have been executed: an interceptor may return the status
    /// of another call.
    fn marked(&self, status: Status) -> Status {
        match self.scope.maybe_executed.get() {
            true => status.maybe_executed(),
            false => status,
        }
    }

    /// Polls the deadline while interceptors wait. While they wait for the inner call, that one watches the
    /// deadline itself; if they hold it and wait for something else, it gets some time more to be polled.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let is_inside = self.scope.is_inside.get();
        let Some(deadline) =
            self.scope.deadline.filter(|_| !(is_inside && self.scope.is_polled.get()))
        else {
            return Poll::Pending;
        };
        let later = || deadline.checked_add(limits::UNPOLLED_GRACE).unwrap_or(deadline);
        let until = if is_inside { later() } else { deadline };
        let (_, timer) = match &mut self.timer {
            Some(known) if known.0 == until => known,
            other => other.insert((until, runtime::sleep_until(until))),
        };
        ready!(Pin::new(timer).poll(cx));
        let why = "an interceptor of the client was not done before the deadline";
        Poll::Ready(Status::deadline_exceeded(why))
    }

    #[cold]
    fn on_panic(&self, panic: Box<dyn Any + Send>) -> Status {
        let (method, panic) = (self.method.name(), panic_message(panic));
        contain("a subscriber of the log", || {
            tracing::error!(method, panic, "an interceptor of a client panicked");
        });
        Status::internal("an interceptor of the client failed")
    }
}
