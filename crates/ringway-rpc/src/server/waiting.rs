//! A call whose handler waits: it runs as a task until it is answered, cancelled or past its deadline.

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
use super::slow_calls::{PollWatch, Spent};
use crate::call::context::Context;
use crate::call::status::{Code, Status};
use crate::connection::table::Waits;
use crate::service::{Encoded, Waiting};

/// Spawns a task for a handler that waits. The task is named after the method for the stall watchdog.
pub(super) fn spawn_waiting<M: Machine>(
    connection: &Rc<ServerConnection<M>>,
    admitted: Admitted,
    running: Running,
) {
    let core = connection.core();
    connection.calls.borrow_mut().insert(ServedCall::waiting(
        admitted.stream,
        running.context.clone(),
        admitted.times.began,
    ));
    let name = core.entry(admitted.method_index).method().name;
    let in_flight = Some(core.count_in_flight());
    let (of, running) = (Rc::clone(connection), Some(running));
    let call =
        WaitingCall { connection: of, admitted, running, in_flight, alarm: None, spent: None };
    let task = spawn_named(name, call);
    connection.calls.borrow_mut().set_task(admitted.stream, task);
}

struct WaitingCall<M: Machine> {
    connection: Rc<ServerConnection<M>>,
    admitted: Admitted,
    /// The handler, until the call has ended.
    running: Option<Running>,
    in_flight: Option<InFlight>,
    alarm: Option<Sleep>,
    spent: Option<Spent>,
}

/// A handler that waits, with its context and span.
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
        let watch = {
            let core = this.connection.core();
            PollWatch::begin(core.slow_calls(), || core.look_at_clock(), &mut this.spent)
        };
        let polled = attempt(|| span.in_scope(poll));
        if let Some(watch) = watch {
            let waits = this.connection.known_streams().waits(this.admitted.stream);
            let now = this.connection.core().look_at_clock();
            watch.end(now, &mut this.spent, waits != Waits::ForNobody);
        }
        let outcome = match polled {
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => {
                let core = this.connection.core();
                Err(core.on_panic(core.entry(this.admitted.method_index), span, panic))
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
    /// Polls the deadline. The timer is polled only once, because the task's waker stays the same.
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
        let entry = core.entry(self.admitted.method_index);
        let call = connection.calls.borrow_mut().remove(self.admitted.stream);
        // The stored call holds the context, and has to go before that can be recycled.
        let answered = match call.map(drop) {
            Some(()) => connection.finish(&self.admitted, &context, outcome, scratch),
            None => connection.given_up(self.admitted.stream, &context),
        };
        close_span(span, answered.code);
        core.end_waiting(entry, self.admitted.times, answered, self.spent);
        // The handler's destructors are user code, and may use streams of this connection.
        contain(entry.method().name, || context.enter(|| drop(handler)));
        context.recycle();
    }
}

/// Cancels and drops a waiting handler whose call is over. Its destructors and the subscribers of its
/// span are user code; a panic in one does not keep the other from running.
#[cold]
pub(super) fn drop_waiting<M: Machine>(
    connection: &ServerConnection<M>,
    admitted: &Admitted,
    running: Running,
) {
    let Running { context, handler, span } = running;
    let core = connection.core();
    let entry = core.entry(admitted.method_index);
    context.cancel(Code::Cancelled, "the handler was dropped");
    let answered = connection.given_up(admitted.stream, &context);
    close_span(span, answered.code);
    core.end(entry, admitted.times, answered);
    contain(entry.method().name, || context.enter(|| drop(handler)));
    context.recycle();
}

impl<M: Machine> Drop for WaitingCall<M> {
    /// Counts and cancels a call that was dropped before its answer: the client has cancelled it, or the
    /// connection is gone.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.in_flight = None;
            drop_waiting(&self.connection, &self.admitted, running);
        }
    }
}
