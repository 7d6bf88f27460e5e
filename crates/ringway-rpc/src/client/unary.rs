//! The attempts of a unary call on its core, one after another.
//!
//! ```text
//!        ┌── at once: proved not executed ─── or after a pause: idempotent ───┐
//!        ▼                                                                    │
//!     attempt: New ──► Waiting for room ──► InFlight ──► outcome ─────────────┴──► Over
//!               └─────────────────────────────▲
//! ```

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime as runtime;

use super::attempt::{Attempt, SentAttempt, UnaryRequest};
use super::call_metrics::CallTimer;
use super::connection::{ClientConnection, ConnectionId};
use super::load_balancer::EndpointId;
use super::local_clients::{self, LocalClients};
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::pool::Pool;
use super::registry::ClientId;
use crate::call::method::Method;
use crate::call::status::{Code, Pushback, Status};
use crate::limits;
use crate::policy::RetryBackoff;
use crate::slab::SlabKey;

/// A unary call with its retries. It is `Send` because it refers to objects of its core by keys only.
pub(super) struct Unary {
    pub(super) request: UnaryRequest,
    stage: UnaryStage,
    /// The core whose keys the stage holds.
    core: u32,
    /// The call's timer for metrics, from its first poll to its end.
    timer: Option<CallTimer>,
    /// Whether the call was sent again because it was not executed.
    replaced: bool,
    /// Whether one of its attempts may have been executed.
    maybe_executed: bool,
    /// Whether this is one of two hedged attempts, which are not retried.
    is_hedged: bool,
    backoff: RetryBackoff,
}

enum UnaryStage {
    Attempt(Attempt),
    /// The pause before a retry.
    Pausing {
        timer: SlabKey,
        until: Instant,
    },
    /// The request could not be made, for example because it could not be encoded.
    Failed(Status),
    Over,
}

impl UnaryStage {
    const NEW: Self = Self::Attempt(Attempt::New { avoid: None });
}

impl Unary {
    /// Makes a call that begins when it is polled.
    #[inline]
    pub(super) fn new(
        client: ClientId,
        method: &'static Method,
        codec: u8,
        message: Result<Bytes, Status>,
        mut options: CallOptions,
    ) -> Self {
        let (message, stage) = match (message, options.take_failure()) {
            (Ok(message), None) => (message, UnaryStage::NEW),
            (Err(status), _) | (Ok(_), Some(status)) => (Bytes::new(), UnaryStage::Failed(status)),
        };
        let (deadline, attempt, tried) = (None, 0, None);
        Self {
            request: UnaryRequest {
                client,
                method,
                message,
                codec,
                options,
                deadline,
                attempt,
                tried,
            },
            stage,
            core: 0,
            timer: None,
            replaced: false,
            maybe_executed: false,
            is_hedged: false,
            backoff: RetryBackoff::default(),
        }
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        let options = &mut self.request.options;
        *options = change(std::mem::take(options));
        if let Some(failure) = options.take_failure() {
            self.stage = UnaryStage::Failed(failure);
        }
    }

    /// Starts the call's time on a thread that is not its core. Returns the call's deadline.
    pub(super) fn begin_elsewhere(&mut self) -> Option<Instant> {
        self.request.options.begin_elsewhere(self.request.method)
    }

    /// The attempt in flight, if there is one.
    pub(super) fn in_flight(&self) -> Option<&SentAttempt> {
        match &self.stage {
            UnaryStage::Attempt(Attempt::InFlight(flight)) => Some(flight),
            _ => None,
        }
    }

    /// Makes a second attempt beside the one on `endpoint`, which does not use the connection `avoid`.
    /// Also returns the call's metrics timer, which the caller ends from now on.
    pub(super) fn hedge(
        &mut self,
        endpoint: EndpointId,
        avoid: Option<ConnectionId>,
    ) -> (Self, Option<CallTimer>) {
        self.is_hedged = true;
        let UnaryRequest { client, method, codec, deadline, attempt, .. } = self.request;
        let request = UnaryRequest {
            client,
            method,
            message: self.request.message.clone(),
            codec,
            options: self.request.options.clone(),
            deadline,
            attempt: attempt + 1,
            tried: Some(endpoint),
        };
        let second = Self {
            request,
            stage: UnaryStage::Attempt(Attempt::New { avoid }),
            backoff: RetryBackoff::default(),
            timer: None,
            ..*self
        };
        (second, self.timer.take())
    }

    /// Polls the call on its core.
    #[inline]
    pub(super) fn poll(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        self.core = local.core().unwrap_or_default();
        loop {
            let UnaryStage::Attempt(Attempt::InFlight(flight)) = self.stage else {
                let failure = ready!(self.poll_send(local, cx));
                match self.retry(local, failure, None, cx) {
                    Some(failure) => return self.failed(local, failure, runtime::uptime()),
                    None => continue,
                }
            };
            let (ended, now) = ready!(flight.poll(local, cx));
            let pool = local.known_pool(self.request.client);
            if let Some(pool) = &pool {
                flight.report(ended.outcome.as_ref().err(), now, pool);
            }
            match ended.outcome {
                Ok(reply) => {
                    if let Some(pool) = &pool {
                        self.count_end(pool, Code::Ok, reply.message.len(), now);
                    }
                    self.stage = UnaryStage::Over;
                    return Poll::Ready(Ok(reply));
                }
                Err(failure) => {
                    self.maybe_executed |= !failure.is_not_executed();
                    self.request.tried = Some(flight.sent.endpoint);
                    let sent_attempt = Some((&flight, ended.connection));
                    if let Some(failure) = self.retry(local, failure, sent_attempt, cx) {
                        return self.failed(local, failure, now);
                    }
                }
            }
        }
    }

    /// Sends the next attempt as soon as possible. Pending once it is in flight; ready only with a
    /// failure.
    fn poll_send(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<Status> {
        if let UnaryStage::Pausing { timer, until } = self.stage {
            let Some(pool) = local.known_pool(self.request.client) else {
                let why = "the client was dropped during the call";
                return Poll::Ready(Status::cancelled(why).not_executed());
            };
            if runtime::now() < until && !pool.is_closed() {
                pool.waiting().set_timer(Some(timer), cx.waker(), until);
                return Poll::Pending;
            }
            pool.waiting().clear_timer(timer);
            self.stage = UnaryStage::NEW;
        }
        let is_new = match &self.stage {
            UnaryStage::Attempt(attempt) => matches!(attempt, Attempt::New { .. }),
            UnaryStage::Failed(status) => return Poll::Ready(status.clone()),
            UnaryStage::Pausing { .. } | UnaryStage::Over => {
                panic!("a call was polled after it had ended")
            }
        };
        let pool = match local.pool(self.request.client) {
            Ok(pool) => pool,
            Err(status) => return self.not_sent(status),
        };
        let is_first = is_new && self.request.attempt == 0;
        let now = if is_first { self.begin(&pool) } else { runtime::uptime() };
        let UnaryStage::Attempt(attempt) = &mut self.stage else { unreachable!("see above") };
        if let Err(status) = attempt.send(&self.request, now, &pool, local, cx) {
            return self.not_sent(status);
        }
        if let (Attempt::InFlight(_), Some(timer)) = (attempt, &mut self.timer) {
            timer.sent(now);
        }
        Poll::Pending
    }

    /// Ends an attempt that was not sent and waits for nothing, so that nothing of it is cleaned up later.
    #[cold]
    fn not_sent(&mut self, status: Status) -> Poll<Status> {
        self.stage = UnaryStage::Over;
        Poll::Ready(status)
    }

    /// Counts the call as begun and starts its time.
    #[inline]
    fn begin(&mut self, pool: &Pool) -> Duration {
        let method = self.request.method;
        let (now, deadline) = self.request.options.span(method, pool.context().clock);
        self.request.deadline = Some(deadline);
        self.timer = Some(CallTimer::begin(now));
        pool.context().metrics.call_began(method, self.request.message.len());
        pool.earn_retry();
        now
    }

    /// Decides after a failed attempt: starts another one (`None`), or returns the failure. `sent_attempt` is
    /// the attempt, if it was sent, and its connection, unless that was lost.
    #[cold]
    fn retry(
        &mut self,
        local: &LocalClients,
        failure: Status,
        sent_attempt: Option<(&SentAttempt, Option<Rc<ClientConnection>>)>,
        cx: &mut Context<'_>,
    ) -> Option<Status> {
        let is_last = self.is_hedged || matches!(self.stage, UnaryStage::Failed(_)); // could not be made
        let Some(pool) = local.known_pool(self.request.client).filter(|_| !is_last) else {
            return Some(failure);
        };
        let connection = sent_attempt.as_ref().and_then(|(_, connection)| connection.as_ref());
        let is_leaving = sent_attempt.is_some() && connection.is_none_or(|it| !it.is_open());
        let has_crossed = sent_attempt
            .as_ref()
            .zip(connection)
            .is_some_and(|((flight, _), connection)| flight.has_crossed_cut(connection));
        // The refusal of one stream says nothing about the next one (A6 of gRPC's proposals).
        let may_stay = connection.is_some_and(|it| it.address().is_grpc());
        // Calls that leave a closing connection, or that it refused because they crossed a smaller lease,
        // add nothing to the load that was there before.
        let is_free = self.request.attempt == 0 && (is_leaving || has_crossed);
        let method = self.request.method;
        let is_afforded = || is_free || pool.affords(method);
        let is_to_move = failure.is_refused() && !self.replaced;
        let elsewhere =
            sent_attempt.map(|(flight, _)| flight.sent.connection).filter(|connection| {
                is_to_move && (is_leaving || pool.endpoints().may_have_other(*connection))
            });
        if elsewhere.is_some() || is_to_move && (has_crossed || may_stay) {
            if !is_afforded() {
                return Some(failure);
            }
            self.replaced = true;
            self.stage = UnaryStage::Attempt(Attempt::New { avoid: elsewhere });
        } else {
            let Some(wait) = self.wait_before_retry(&failure).filter(|_| is_afforded()) else {
                return Some(failure);
            };
            let until = runtime::now() + wait;
            let timer = pool.waiting().set_timer(None, cx.waker(), until);
            self.stage = UnaryStage::Pausing { timer, until };
        }
        self.request.attempt += 1;
        pool.context().metrics.retried(method);
        None
    }

    /// The wait before a retry, at most [`limits::PUSHBACK_MAX`]; `None` if the call must not be retried.
    fn wait_before_retry(&mut self, failure: &Status) -> Option<Duration> {
        let may = self.request.may_be_repeated();
        let wait = match failure.pushback() {
            Some(Pushback::Never) => None,
            Some(Pushback::After(wait))
                if failure.is_unavailable() || failure.is_resource_exhausted() =>
            {
                Some(wait).filter(|wait| *wait <= limits::PUSHBACK_MAX)
            }
            _ if failure.is_unavailable() || failure.is_refused() => {
                Some(self.backoff.next(&mut fastrand::Rng::new()))
            }
            _ => None,
        };
        let deadline = self.request.deadline;
        let is_in_time = |wait: &Duration| {
            deadline.is_none_or(|deadline| runtime::uptime() + *wait < deadline.at)
        };
        wait.filter(|_| may).filter(is_in_time)
    }

    /// Ends the call with a failure.
    #[cold]
    fn failed(
        &mut self,
        local: &LocalClients,
        failure: Status,
        now: Duration,
    ) -> Poll<CallOutcome> {
        if let Some(pool) = local.known_pool(self.request.client) {
            self.count_end(&pool, failure.code(), 0, now);
        }
        let failure = match self.maybe_executed {
            true => failure.maybe_executed(),
            false => failure,
        };
        self.stage = UnaryStage::Over;
        Poll::Ready(Err(failure.of_call(self.request.method)))
    }

    /// Counts the call as ended, once.
    #[inline]
    fn count_end(&mut self, pool: &Pool, code: Code, bytes: usize, now: Duration) {
        if let Some(timer) = self.timer.take() {
            timer.end(&pool.context().metrics, self.request.method, code, bytes, now);
        }
    }

    /// Cancels the call if it has begun; works on any thread.
    #[inline]
    pub(super) fn give_up(&mut self) {
        match self.stage {
            UnaryStage::Attempt(Attempt::New { .. }) | UnaryStage::Failed(_) | UnaryStage::Over => {
            }
            UnaryStage::Attempt(_) | UnaryStage::Pausing { .. } => self.abandon(),
        }
    }

    #[cold]
    fn abandon(&mut self) {
        let UnaryRequest { client, method, .. } = self.request;
        let stage = std::mem::replace(&mut self.stage, UnaryStage::Over);
        let timer = self.timer.take();
        local_clients::on_core(self.core, move |local| {
            let pool = local.known_pool(client);
            match stage {
                UnaryStage::Attempt(attempt) => attempt.give_up(local, pool.as_deref()),
                UnaryStage::Pausing { timer, .. } => {
                    pool.iter().for_each(|pool| pool.waiting().clear_timer(timer));
                }
                UnaryStage::Failed(_) | UnaryStage::Over => {}
            }
            if let Some((timer, pool)) = timer.zip(pool) {
                let metrics = &pool.context().metrics;
                timer.end(metrics, method, Code::Cancelled, 0, runtime::uptime());
            }
        });
    }
}

impl Drop for Unary {
    fn drop(&mut self) {
        self.give_up();
    }
}
