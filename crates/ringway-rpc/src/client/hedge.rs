//! A unary call with an optional hedge: a second attempt if the first one takes longer than most.
//!
//! The first good answer wins, and the other attempt is cancelled. Hedged attempts are not retried.

use std::task::{Context, Poll};
use std::time::Instant;

use ringway_runtime as runtime;

use super::call_metrics::CallTimer;
use super::local_clients::{self, LocalClients};
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::registry::ClientId;
use super::unary::Unary;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::limits;
use crate::slab::SlabKey;

/// A unary call, hedged or not. It is `Send`, as [`Unary`] is.
pub(super) struct UnaryCall {
    first: Unary,
    /// The hedging state, from the first poll of a hedged call on.
    hedge: Option<Box<Hedge>>,
}

/// The second attempt of a call, and the state until there is one.
struct Hedge {
    client: ClientId,
    method: &'static Method,
    core: u32,
    first_is_over: bool,
    second: Option<Unary>,
    /// Whether a second attempt was made, or the retry budget did not allow it.
    decided: bool,
    /// Whether one of the attempts may have been executed.
    maybe_executed: bool,
    /// The timer that fires when it is time to decide.
    timer: Option<SlabKey>,
    /// The metrics timer of the call, once there is a second attempt.
    call_timer: Option<CallTimer>,
}

impl UnaryCall {
    /// Makes a call that begins when it is polled.
    #[inline]
    pub(super) fn new(first: Unary) -> Self {
        Self { first, hedge: None }
    }

    pub(super) fn client(&self) -> ClientId {
        self.first.request.client
    }

    pub(super) fn method(&self) -> &'static Method {
        self.first.request.method
    }

    pub(super) fn options(&self) -> &CallOptions {
        &self.first.request.options
    }

    pub(super) fn options_mut(&mut self) -> &mut CallOptions {
        &mut self.first.request.options
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        self.first.change_options(change);
    }

    /// Starts the call's time on a thread that is not its core. Returns the call's deadline.
    pub(super) fn begin_elsewhere(&mut self) -> Option<Instant> {
        self.first.begin_elsewhere()
    }

    /// The call's deadline, once it has begun.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.first.request.deadline?.instant()
    }

    /// Polls the call on its core.
    #[inline]
    pub(super) fn poll(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        match self.first.request.options.hedges {
            true => self.poll_hedged(local, cx),
            false => self.first.poll(local, cx),
        }
    }

    #[cold]
    fn poll_hedged(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        let Self { first, hedge } = self;
        let hedge = hedge.get_or_insert_with(|| Box::new(Hedge::new(first, local)));
        let mut polled = hedge.poll_attempts(first, local, cx);
        if polled.is_pending() && hedge.decide(first, local, cx) {
            polled = hedge.poll_attempts(first, local, cx);
        }
        polled.map(|outcome| hedge.end(first, outcome))
    }
}

impl Hedge {
    fn new(first: &Unary, local: &LocalClients) -> Self {
        Self {
            client: first.request.client,
            method: first.request.method,
            core: local.core().unwrap_or_default(),
            first_is_over: false,
            second: None,
            decided: false,
            maybe_executed: false,
            timer: None,
            call_timer: None,
        }
    }

    /// Ready with a good answer, or with the failure of the last attempt.
    fn poll_attempts(
        &mut self,
        first: &mut Unary,
        local: &LocalClients,
        cx: &mut Context<'_>,
    ) -> Poll<CallOutcome> {
        if !self.first_is_over
            && let Poll::Ready(outcome) = first.poll(local, cx)
        {
            self.first_is_over = true;
            self.maybe_executed |= is_maybe_executed(&outcome);
            if self.second.is_none() || is_answer(&outcome) {
                return Poll::Ready(outcome);
            }
        }
        if let Some(second) = &mut self.second
            && let Poll::Ready(outcome) = second.poll(local, cx)
        {
            self.second = None;
            self.maybe_executed |= is_maybe_executed(&outcome);
            if self.first_is_over || is_answer(&outcome) {
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    }

    /// Starts the second attempt if it is time; otherwise sets a timer. Returns whether there is one now.
    fn decide(&mut self, first: &mut Unary, local: &LocalClients, cx: &Context<'_>) -> bool {
        if self.decided || self.first_is_over {
            return false;
        }
        let (Some(flight), Some(pool)) = (first.in_flight(), local.known_pool(self.client)) else {
            return false;
        };
        let metrics = &pool.context().metrics;
        let may = first.request.may_be_repeated();
        let Some(delay) = metrics.hedge_delay(self.method).filter(|_| may) else {
            return false;
        };
        let Some(at) = flight.begun.checked_add(delay) else {
            return false;
        };
        let now = runtime::uptime();
        let (endpoint, connection) = (flight.sent.endpoint, flight.sent.connection);
        let beside = match now < at {
            true => Err(at),
            // If no host has room now, one may have it soon.
            false => pool
                .endpoints()
                .beside(endpoint, connection)
                .ok_or_else(|| now + delay.max(limits::HEDGE_LOOK_AGAIN)),
        };
        let avoid = match beside {
            Ok(avoid) => avoid,
            Err(later) => {
                let Some(later) = pool.context().clock.deadline(later) else { return false };
                self.timer = Some(pool.waiting().set_timer(self.timer, cx.waker(), later));
                return false;
            }
        };
        if let Some(timer) = self.timer.take() {
            pool.waiting().clear_timer(timer);
        }
        self.decided = true;
        if pool.affords(self.method) {
            metrics.hedged(self.method);
            let (second, call_timer) = first.hedge(endpoint, avoid);
            self.second = Some(second);
            self.call_timer = call_timer;
        }
        self.second.is_some()
    }

    fn end(&mut self, first: &mut Unary, mut outcome: CallOutcome) -> CallOutcome {
        // The attempt that is cancelled now may still be executed.
        let gives_up = !self.first_is_over || self.second.is_some();
        if gives_up || self.maybe_executed {
            outcome = outcome.map_err(Status::maybe_executed);
        }
        let (code, bytes) = match &outcome {
            Ok(reply) => (Code::Ok, reply.message.len()),
            Err(failure) => (failure.code(), 0),
        };
        first.give_up();
        self.leave(code, bytes);
        outcome
    }

    /// Cancels the second attempt and the timers, and counts the call if the first attempt does not.
    fn leave(&mut self, code: Code, bytes: usize) {
        self.second = None;
        let (client, method) = (self.client, self.method);
        let (timer, call_timer) = (self.timer.take(), self.call_timer.take());
        if timer.is_none() && call_timer.is_none() {
            return;
        }
        local_clients::on_core(self.core, move |local| {
            let Some(pool) = local.known_pool(client) else {
                return;
            };
            if let Some(timer) = timer {
                pool.waiting().clear_timer(timer);
            }
            if let Some(call_timer) = call_timer {
                call_timer.end(&pool.context().metrics, method, code, bytes, runtime::uptime());
            }
        });
    }
}

impl Drop for Hedge {
    /// Cancels the call; works on any thread.
    fn drop(&mut self) {
        self.leave(Code::Cancelled, 0);
    }
}

fn is_maybe_executed(outcome: &CallOutcome) -> bool {
    outcome.as_ref().err().is_none_or(|status| !status.is_not_executed())
}

/// Whether this outcome ends the call although the other attempt may still succeed. A failure does if a
/// server has returned it and a retry would not help.
fn is_answer(outcome: &CallOutcome) -> bool {
    let may_differ = |status: &Status| {
        status.is_unavailable() || status.is_resource_exhausted() || status.is_not_executed()
    };
    outcome.as_ref().err().is_none_or(|status| !may_differ(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_was_never_sent_is_no_answer_while_the_other_runs() {
        let failed = |status: Status| is_answer(&Err(status));
        for never_sent in [
            Status::deadline_exceeded("no connection had room before the deadline"),
            Status::cancelled("the client was dropped before its call was sent"),
            Status::resource_exhausted("the metadata is longer than the server takes"),
        ] {
            assert!(!failed(never_sent.clone().not_executed()), "{never_sent}");
        }
        assert!(failed(Status::deadline_exceeded("the server had no time left")));
        assert!(failed(Status::cancelled("as the handler says")) && failed(Status::not_found("")));
        assert!(!failed(Status::unavailable("the connection was lost")));
    }
}
