//! A call whose handler waits: a task of its own until it is answered, cancelled or too late.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use ringway_runtime::{Sleep, sleep_until, spawn_named};
use ringway_wire::native::StreamId;
use tracing::Span;

use super::answer::Answered;
use super::calls::Call;
use super::connection::NativeConnection;
use super::observe::close_span;
use super::run::contain;
use crate::context::Context;
use crate::service::{Encoded, Waiting};
use crate::status::{Code, Status};

/// What is known of a call when it begins, for the counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    /// When it left the queue.
    pub(super) began: Duration,
    /// In the queue.
    pub(super) waited: Duration,
}

/// Gives a handler that waits a task, which is named by its method for the stall watchdog.
pub(super) fn spawn_waiting(
    connection: &Rc<NativeConnection>,
    place: usize,
    stream: StreamId,
    context: Context,
    handler: Pin<Box<dyn Waiting>>,
    measures: Measures,
    span: Span,
) {
    let core = connection.core();
    core.shared().in_flight.fetch_add(1, Ordering::Relaxed);
    connection.calls.borrow_mut().insert(Call::running(stream, context.clone()));
    let name = core.entry(place).method().name;
    let call = WaitingCall {
        connection: Rc::clone(connection),
        place,
        stream,
        deadline: context.deadline(),
        context,
        handler: Some(handler),
        alarm: None,
        measures,
        span,
    };
    let task = spawn_named(name, call);
    connection.calls.borrow_mut().set_task(stream, task);
}

struct WaitingCall {
    connection: Rc<NativeConnection>,
    place: usize,
    stream: StreamId,
    context: Context,
    /// Present until the call has ended.
    handler: Option<Pin<Box<dyn Waiting>>>,
    deadline: Option<Instant>,
    alarm: Option<Sleep>,
    measures: Measures,
    span: Span,
}

impl Future for WaitingCall {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(handler) = &mut this.handler else { return Poll::Ready(()) };
        let mut scratch = this.connection.take_scratch();
        let poll = || this.context.enter(|| handler.as_mut().poll(cx, &mut scratch));
        let polled = this.span.in_scope(|| contain(poll));
        let outcome = match polled {
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => {
                let core = this.connection.core();
                Err(core.on_panic(core.entry(this.place), &*panic))
            }
            Ok(Poll::Pending) => match this.poll_deadline(cx) {
                Poll::Ready(status) => Err(status),
                Poll::Pending => {
                    this.connection.keep_scratch(scratch);
                    return Poll::Pending;
                }
            },
        };
        this.end(outcome, &mut scratch);
        this.connection.keep_scratch(scratch);
        Poll::Ready(())
    }
}

impl WaitingCall {
    /// The timer is started once: the task's waker stays the same.
    fn poll_deadline(&mut self, cx: &mut TaskContext<'_>) -> Poll<Status> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let passed = match &self.alarm {
            Some(_) => ringway_runtime::now() >= deadline,
            None => {
                let alarm = self.alarm.insert(sleep_until(deadline));
                Pin::new(alarm).poll(cx).is_ready()
            }
        };
        if !passed {
            return Poll::Pending;
        }
        let reason = "the deadline passed while the handler ran";
        self.context.cancel(Code::DeadlineExceeded, reason);
        Poll::Ready(Status::deadline_exceeded(reason))
    }

    fn end(&mut self, outcome: Result<Encoded, Status>, scratch: &mut Vec<u8>) {
        let connection = Rc::clone(&self.connection);
        let core = connection.core();
        let entry = core.entry(self.place);
        core.shared().in_flight.fetch_sub(1, Ordering::Relaxed);
        let handler = self.handler.take();
        let call = connection.calls.borrow_mut().remove(self.stream);
        match call.is_some() {
            true => {
                let (stream, measures) = (self.stream, self.measures);
                let context = &self.context;
                let code = connection.finish(entry, stream, context, outcome, scratch, measures);
                close_span(&self.span, code);
            }
            false => core.end(entry, self.measures, CANCELLED),
        }
        // Destructors of the handler are code of a user, and may use streams of this connection.
        if contain(|| self.context.enter(|| drop(handler))).is_err() {
            tracing::error!(method = entry.method().name, "a handler panicked when it was dropped");
        }
    }
}

/// How a call counts whose handler was dropped.
const CANCELLED: Answered = Answered { code: Code::Cancelled, bytes: 0 };

impl Drop for WaitingCall {
    /// Dropped before it had an answer: the client has given up, or the connection is gone.
    fn drop(&mut self) {
        if self.handler.is_none() {
            return;
        }
        let core = self.connection.core();
        core.shared().in_flight.fetch_sub(1, Ordering::Relaxed);
        core.end(core.entry(self.place), self.measures, CANCELLED);
    }
}
