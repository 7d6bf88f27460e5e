//! A call whose handler waits: a task of its own until it is answered, cancelled or too late.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use ringway_runtime::{Sleep, contain, sleep_until, spawn_named};
use tracing::Span;

use super::admitted::Admitted;
use super::calls::ServedCall;
use super::connection::ServerConnection;
use super::core::{InFlight, attempt};
use super::machine::Machine;
use super::observe::close_span;
use crate::call::context::Context;
use crate::call::status::{Code, Status};
use crate::service::{Encoded, Waiting};

/// Gives a handler that waits a task, which is named by its method for the stall watchdog.
pub(super) fn spawn_waiting<M: Machine>(
    connection: &Rc<ServerConnection<M>>,
    admitted: Admitted,
    running: Running,
) {
    let core = connection.core();
    connection
        .calls
        .borrow_mut()
        .insert(ServedCall::running(admitted.stream, running.context.clone()));
    let name = core.entry(admitted.place).method().name;
    let in_flight = Some(core.take_off());
    let (of, running) = (Rc::clone(connection), Some(running));
    let call = WaitingCall { connection: of, admitted, running, in_flight, alarm: None };
    let task = spawn_named(name, call);
    connection.calls.borrow_mut().set_task(admitted.stream, task);
}

struct WaitingCall<M: Machine> {
    connection: Rc<ServerConnection<M>>,
    admitted: Admitted,
    /// Present until the call has ended.
    running: Option<Running>,
    in_flight: Option<InFlight>,
    alarm: Option<Sleep>,
}

/// A handler that waits, and what it runs in.
pub(super) struct Running {
    pub(super) context: Context,
    pub(super) handler: Pin<Box<dyn Waiting>>,
    pub(super) span: Span,
}

impl<M: Machine> Future for WaitingCall<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(running) = &mut this.running else { return Poll::Ready(()) };
        let Running { context, handler, span } = running;
        let mut scratch = this.connection.take_scratch();
        let poll = || context.enter(|| handler.as_mut().poll(cx, &mut scratch));
        let polled = attempt(|| span.in_scope(poll));
        let outcome = match polled {
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => {
                let core = this.connection.core();
                Err(core.on_panic(core.entry(this.admitted.place), span, panic))
            }
            Ok(Poll::Pending) => match this.poll_deadline(cx) {
                Poll::Ready(status) => Err(status),
                Poll::Pending => {
                    this.connection.keep_scratch(scratch);
                    return Poll::Pending;
                }
            },
        };
        if let Some(running) = this.running.take() {
            this.in_flight = None;
            this.end(running, outcome, &mut scratch);
        }
        this.connection.keep_scratch(scratch);
        Poll::Ready(())
    }
}

impl<M: Machine> WaitingCall<M> {
    /// The timer is started once: the task's waker stays the same.
    fn poll_deadline(&mut self, cx: &mut TaskContext<'_>) -> Poll<Status> {
        let deadline = self.running.as_ref().and_then(|running| running.context.deadline());
        let Some(deadline) = deadline else { return Poll::Pending };
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
        if let Some(running) = &self.running {
            running.context.cancel(Code::DeadlineExceeded, reason);
        }
        Poll::Ready(Status::deadline_exceeded(reason))
    }

    fn end(&self, running: Running, outcome: Result<Encoded, Status>, scratch: &mut Vec<u8>) {
        let Running { context, handler, span } = running;
        let (connection, core) = (&self.connection, self.connection.core());
        let entry = core.entry(self.admitted.place);
        let call = connection.calls.borrow_mut().remove(self.admitted.stream);
        // What it holds of the context goes, so that its memory is used again.
        let answered = match call.map(drop) {
            Some(()) => connection.finish(&self.admitted, &context, outcome, scratch),
            None => connection.given_up(self.admitted.stream, &context),
        };
        close_span(span, answered.code);
        core.end(entry, self.admitted.times, answered);
        // Destructors of the handler are code of a user, and may use streams of this connection.
        contain(entry.method().name, || context.enter(|| drop(handler)));
        context.recycle();
    }
}

/// A call is over of which nothing but the handler is left, which waits: it is told, and dropped. Its
/// destructors are code of a user, and so is what listens to its span: each has its panics to itself.
#[cold]
pub(super) fn drop_waiting<M: Machine>(
    connection: &ServerConnection<M>,
    admitted: &Admitted,
    running: Running,
) {
    let Running { context, handler, span } = running;
    let core = connection.core();
    let entry = core.entry(admitted.place);
    context.cancel(Code::Cancelled, "the handler was dropped");
    let answered = connection.given_up(admitted.stream, &context);
    close_span(span, answered.code);
    core.end(entry, admitted.times, answered);
    contain(entry.method().name, || context.enter(|| drop(handler)));
    context.recycle();
}

impl<M: Machine> Drop for WaitingCall<M> {
    /// Dropped before it had an answer: the client has given up, or the connection is gone.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.in_flight = None;
            drop_waiting(&self.connection, &self.admitted, running);
        }
    }
}
