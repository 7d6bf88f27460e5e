//! A call with a second attempt beside the first one, where that takes longer than most do.
//!
//! The first good answer wins and the other attempt is cancelled. Neither is repeated then.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ringway_runtime as runtime;

use super::call_life::Life;
use super::far::Far;
use super::hub::{self, Hub};
use super::line::Ticket;
use super::options::CallOptions;
use super::outcome::Outcome;
use super::registry::{self, ClientId};
use super::unary::Unary;
use crate::call::method::Method;
use crate::call::status::{Code, Status};

/// It is `Send`, as [`Unary`] is.
pub(super) struct Hedged {
    stage: Stage,
    /// Whose numbers the attempts hold, once the call has begun.
    core: Option<u32>,
}

enum Stage {
    Here(Box<Attempts>),
    Far(Far),
    Over,
}

/// What a core does of the call.
struct Attempts {
    client: ClientId,
    method: &'static Method,
    first: Option<Unary>,
    second: Option<Unary>,
    /// A second attempt was made, or could not be paid for.
    decided: bool,
    /// One of the attempts may have been executed.
    maybe_executed: bool,
    /// Until the moment to decide.
    nap: Option<Ticket>,
    /// What the call is counted by, taken from the first attempt when there is a second one.
    life: Option<Life>,
    core: u32,
}

impl Hedged {
    /// A call that will begin when it is polled.
    pub(super) fn new(first: Unary) -> Self {
        let attempts = Attempts {
            client: first.client,
            method: first.method,
            first: Some(first),
            second: None,
            decided: false,
            maybe_executed: false,
            nap: None,
            life: None,
            core: 0,
        };
        Self { stage: Stage::Here(Box::new(attempts)), core: None }
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        if let Stage::Here(attempts) = &mut self.stage
            && let Some(first) = &mut attempts.first
        {
            first.change_options(change);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        if matches!(self.stage, Stage::Here(_)) {
            if let Some(polled) = self.poll_here(cx) {
                return polled;
            }
            let (core, has_begun) = match self.core {
                Some(core) => (core, true),
                None => (registry::background_core()?, false),
            };
            if let Stage::Here(mut attempts) = std::mem::replace(&mut self.stage, Stage::Over) {
                let deadline = attempts.first.as_mut().and_then(|first| match has_begun {
                    true => first.deadline(),
                    false => first.begin_elsewhere(),
                });
                let method = attempts.method;
                self.stage = Stage::Far(Far::start(core, *attempts, method, deadline));
            }
        }
        match &self.stage {
            Stage::Far(far) => far.poll(cx),
            _ => panic!("a call was polled after it had ended"),
        }
    }

    /// Whether it was polled.
    pub(super) fn has_begun(&self) -> bool {
        self.core.is_some() || !matches!(self.stage, Stage::Here(_))
    }

    /// If it is with another thread.
    pub(super) fn far(&self) -> Option<&Far> {
        match &self.stage {
            Stage::Far(far) => Some(far),
            _ => None,
        }
    }

    /// `None` on another thread than the call's core.
    fn poll_here(&mut self, cx: &mut Context<'_>) -> Option<Poll<Outcome>> {
        let Stage::Here(attempts) = &mut self.stage else {
            return None;
        };
        let here = hub::try_with(Hub::core).flatten()?;
        if *self.core.get_or_insert(here) != here {
            return None;
        }
        let polled = Pin::new(&mut **attempts).poll(cx);
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        Some(polled)
    }
}

impl Future for Attempts {
    type Output = Outcome;

    /// On the call's core.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        if let Poll::Ready(outcome) = this.poll_attempts(cx) {
            return Poll::Ready(this.end(outcome));
        }
        if !this.decided && hub::with(|hub| this.decide(hub, cx)) {
            let outcome = ready!(this.poll_attempts(cx));
            return Poll::Ready(this.end(outcome));
        }
        Poll::Pending
    }
}

impl Attempts {
    /// Ready with an answer, or with the failure of the last attempt under way.
    fn poll_attempts(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        for this in [true, false] {
            let (attempt, other) = match this {
                true => (&mut self.first, &self.second),
                false => (&mut self.second, &self.first),
            };
            let Some(polled) = attempt.as_mut().map(|attempt| Pin::new(attempt).poll(cx)) else {
                continue;
            };
            if let Poll::Ready(outcome) = polled {
                *attempt = None;
                self.maybe_executed |= is_maybe_executed(&outcome);
                if other.is_none() || is_answer(&outcome) {
                    return Poll::Ready(outcome);
                }
            }
        }
        Poll::Pending
    }

    /// Whether there is a second attempt from now on; sees to it that it is asked again in time.
    fn decide(&mut self, hub: &Hub, cx: &Context<'_>) -> bool {
        self.core = hub.core().unwrap_or_default();
        let Some(first) = self.first.as_mut() else {
            return false;
        };
        let (Some((begun, host, link)), Some(pool)) =
            (first.under_way(), hub.known_pool(self.client))
        else {
            return false;
        };
        let delay = pool.tally.hedge_delay(self.method).filter(|_| first.may_be_repeated());
        let Some(at) = delay.and_then(|delay| begun.checked_add(delay)) else {
            return false;
        };
        if runtime::now() < at {
            self.nap = Some(pool.nap(self.nap, cx.waker(), at));
            return false;
        }
        if let Some(place) = self.nap.take() {
            pool.end_nap(place);
        }
        let Some(avoid) = pool.beside(host, link) else {
            return false;
        };
        self.decided = true;
        if pool.affords(self.method) {
            pool.tally.hedged(self.method);
            let (second, life) = first.hedge(host, avoid);
            self.second = Some(second);
            self.life = life;
        }
        self.second.is_some()
    }

    fn end(&mut self, mut outcome: Outcome) -> Outcome {
        // An attempt that is given up now may be executed all the same.
        let gives_up = self.first.is_some() || self.second.is_some();
        if gives_up || self.maybe_executed {
            outcome = outcome.map_err(Status::maybe_executed);
        }
        let (code, bytes) = match &outcome {
            Ok(reply) => (Code::Ok, reply.message.len()),
            Err(failure) => (failure.code(), 0),
        };
        self.leave(code, bytes);
        outcome
    }

    /// Gives up the attempts under way, the place among those who wait, and counts the call if the
    /// first attempt does not.
    fn leave(&mut self, code: Code, bytes: usize) {
        drop((self.first.take(), self.second.take()));
        let (client, method) = (self.client, self.method);
        let (nap, life) = (self.nap.take(), self.life.take());
        if nap.is_none() && life.is_none() {
            return;
        }
        hub::on_core(self.core, move |hub| {
            let Some(pool) = hub.known_pool(client) else {
                return;
            };
            if let Some(place) = nap {
                pool.end_nap(place);
            }
            if let Some(life) = life {
                life.count(hub, &pool.tally, method, code, bytes);
            }
        });
    }
}

impl Drop for Attempts {
    /// Gives the call up, on whatever thread.
    fn drop(&mut self) {
        self.leave(Code::Cancelled, 0);
    }
}

fn is_maybe_executed(outcome: &Outcome) -> bool {
    outcome.as_ref().err().is_none_or(|status| !status.is_not_executed())
}

/// Whether this ends the call although another attempt may still succeed: of a failure, that it
/// would not be repeated.
fn is_answer(outcome: &Outcome) -> bool {
    let may_differ = |status: &Status| status.is_unavailable() || status.is_resource_exhausted();
    outcome.as_ref().err().is_none_or(|status| !may_differ(status))
}
