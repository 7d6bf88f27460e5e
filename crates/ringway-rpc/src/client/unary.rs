//! A call with one request and one reply, from its first poll to its outcome.
//!
//! ```text
//!        ┌── at once: proved not executed ─── or after a nap: idempotent ─────┐
//!        ▼                                                                    │
//!       New ──► Waiting for room ──► Flying ──► outcome ──────────────────────┴──► Over
//!        └─────────────────────────────▲
//! ```

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime as runtime;
use ringway_wire::native::Open;

use super::call_life::Life;
use super::line::Ticket;
use super::link::{self, NEVER};
use super::local_clients::{self, LinkKey, LocalClients};
use super::options::CallOptions;
use super::outcome::CallOutcome;
use super::pending_calls::CellKey;
use super::pool::{Demand, NotSent, Pool};
use super::registry::ClientId;
use super::spread::{Answered, HostId};
use super::tally::Tally;
use crate::call::method::Method;
use crate::call::status::{Code, Pushback, Status};
use crate::limits;
use crate::policy::RetryBackoff;

/// It is `Send`: it holds numbers of its core, and nothing that belongs there.
pub(super) struct Unary {
    pub(super) client: ClientId,
    pub(super) method: &'static Method,
    pub(super) request: Bytes,
    pub(super) codec: u8,
    pub(super) options: CallOptions,
    stage: Stage,
    /// Whose numbers the stage holds.
    core: u32,
    deadline: Option<Instant>,
    /// What it is counted by, from its first poll to its end.
    life: Option<Life>,
    /// It was placed once more because nobody had executed it.
    replaced: bool,
    /// One of its attempts may have been executed.
    maybe_executed: bool,
    /// There is another attempt beside this one, so this one is not repeated.
    is_hedged: bool,
    /// The host of the attempt before.
    tried: Option<HostId>,
    /// Attempts made before this one.
    attempt: u8,
    backoff: RetryBackoff,
}

enum Stage {
    New {
        avoid: Option<LinkKey>,
    },
    Waiting(Ticket),
    /// Between two attempts.
    Napping {
        place: Ticket,
        until: Instant,
    },
    Flying(Flying),
    Failed(Status),
    Over,
}

/// An attempt under way.
#[derive(Clone, Copy)]
struct Flying {
    cell: CellKey,
    link: LinkKey,
    host: HostId,
    begun: Instant,
    /// Of the connection, when it was sent.
    lease_cuts: u32,
}

impl Unary {
    /// A call that will begin when it is polled.
    #[inline]
    pub(super) fn new(
        client: ClientId,
        method: &'static Method,
        codec: u8,
        request: Result<Bytes, Status>,
        mut options: CallOptions,
    ) -> Self {
        let (request, stage) = match (request, options.take_failure()) {
            (Ok(request), None) => (request, Stage::New { avoid: None }),
            (Err(status), _) | (Ok(_), Some(status)) => (Bytes::new(), Stage::Failed(status)),
        };
        Self {
            client,
            method,
            request,
            codec,
            options,
            stage,
            core: 0,
            deadline: None,
            life: None,
            replaced: false,
            maybe_executed: false,
            is_hedged: false,
            tried: None,
            attempt: 0,
            backoff: RetryBackoff::default(),
        }
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        debug_assert!(!self.has_begun());
        self.options = change(std::mem::take(&mut self.options));
        if let Some(failure) = self.options.take_failure() {
            self.stage = Stage::Failed(failure);
        }
    }

    /// Whether it was polled.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::New { .. } | Stage::Failed(_))
    }

    /// Since when and where an attempt is under way.
    pub(super) fn under_way(&self) -> Option<(Instant, HostId, LinkKey)> {
        match &self.stage {
            Stage::Flying(flying) => Some((flying.begun, flying.host, flying.link)),
            _ => None,
        }
    }

    /// A second attempt beside the one on `host`, not over the connection to avoid, and what the call is
    /// counted by from now on.
    pub(super) fn hedge(&mut self, host: HostId, avoid: Option<LinkKey>) -> (Self, Option<Life>) {
        self.is_hedged = true;
        let second = Self {
            request: self.request.clone(),
            options: self.options.clone(),
            stage: Stage::New { avoid },
            backoff: RetryBackoff::default(),
            life: None,
            tried: Some(host),
            attempt: self.attempt + 1,
            ..*self
        };
        (second, self.life.take())
    }

    /// Whether another attempt may be made, as far as the call itself is concerned.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.options.is_idempotent(self.method)
            && !self.options.is_nested_retry
            && self.attempt + 1 < limits::ATTEMPTS_MAX
            && self.request.len() <= limits::REPLAY_BYTES_MAX
    }

    /// On the call's core.
    #[inline]
    pub(super) fn poll(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        self.core = local.core().unwrap_or_default();
        loop {
            let Stage::Flying(flying) = self.stage else {
                let failure = ready!(self.poll_before(local, cx));
                match self.after(local, failure, None, cx) {
                    Some(failure) => return self.failed(local, failure, runtime::now()),
                    None => continue,
                }
            };
            let mut now = flying.begun;
            let outcome = ready!(local.poll_cell(flying.cell, cx, &mut now));
            let pool = local.known_pool(self.client);
            if let Some(pool) = pool.as_ref().filter(|pool| pool.tally.learns_of_hosts()) {
                let failure = outcome.as_ref().err();
                let (begun, now) = (local.since_origin(flying.begun), local.since_origin(now));
                let answered = Answered { failure, begun, now, has_latency: true };
                pool.tally.host_answered(flying.host, answered);
            }
            match outcome {
                Ok(reply) => {
                    if let Some(pool) = &pool {
                        self.count_end(&pool.tally, Code::Ok, reply.message.len(), now);
                    }
                    return self.over(Ok(reply));
                }
                Err(failure) => {
                    self.maybe_executed |= !failure.is_not_executed();
                    self.tried = Some(flying.host);
                    if let Some(failure) = self.after(local, failure, Some(flying), cx) {
                        return self.failed(local, failure, now);
                    }
                }
            }
        }
    }

    /// What comes before an attempt is under way. Ready with a failure.
    fn poll_before(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<Status> {
        if let Stage::Napping { place, until } = self.stage {
            let Some(pool) = local.known_pool(self.client) else {
                let why = "the client was dropped during the call";
                return Poll::Ready(Status::cancelled(why).not_executed());
            };
            if runtime::now() < until && !pool.is_closed() {
                pool.nap(Some(place), cx.waker(), until);
                return Poll::Pending;
            }
            pool.end_nap(place);
            self.stage = Stage::New { avoid: None };
        }
        self.send(local, cx)
    }

    /// Decides after a failed attempt: makes another one the next stage, or gives the failure back.
    #[cold]
    fn after(
        &mut self,
        local: &LocalClients,
        failure: Status,
        flown: Option<Flying>,
        cx: &mut Context<'_>,
    ) -> Option<Status> {
        let is_last = self.is_hedged || matches!(self.stage, Stage::Failed(_)); // no request
        let Some(pool) = local.known_pool(self.client).filter(|_| !is_last) else {
            return Some(failure);
        };
        let is_leaving = flown.is_some_and(|flown| local.is_leaving(flown.link));
        let has_crossed =
            flown.is_some_and(|flown| local.has_cut_lease(flown.link, flown.lease_cuts));
        // What a connection leaves behind, or refuses because it crossed a smaller lease, adds
        // nothing to what was under way before.
        let is_free = self.attempt == 0 && (is_leaving || has_crossed);
        let method = self.method;
        let is_afforded = || is_free || pool.affords(method);
        let is_to_move = failure.is_not_executed() && failure.is_unavailable() && !self.replaced;
        let elsewhere = flown.map(|flown| flown.link);
        let elsewhere = elsewhere.filter(|link| is_to_move && pool.has_other(*link));
        if elsewhere.is_some() || is_to_move && has_crossed {
            if !is_afforded() {
                return Some(failure);
            }
            self.replaced = true;
            self.stage = Stage::New { avoid: elsewhere };
        } else {
            let Some(wait) = self.wait_before_retry(&failure).filter(|_| is_afforded()) else {
                return Some(failure);
            };
            let until = runtime::now() + wait;
            let place = pool.nap(None, cx.waker(), until);
            self.stage = Stage::Napping { place, until };
        }
        self.attempt += 1;
        pool.tally.retried(method);
        None
    }

    /// How long to wait before trying again, [`limits::PUSHBACK_MAX`] at most; `None` if that is not to
    /// be done.
    fn wait_before_retry(&mut self, failure: &Status) -> Option<Duration> {
        let may = self.may_be_repeated();
        let wait = match failure.pushback() {
            Some(Pushback::Never) => None,
            Some(Pushback::After(wait))
                if failure.is_unavailable() || failure.is_resource_exhausted() =>
            {
                Some(wait).filter(|wait| *wait <= limits::PUSHBACK_MAX)
            }
            _ if failure.is_unavailable() => Some(self.backoff.next(&mut fastrand::Rng::new())),
            _ => None,
        };
        let left = |wait: &Duration| {
            self.deadline.is_none_or(|deadline| runtime::now() + *wait < deadline)
        };
        wait.filter(|_| may).filter(left)
    }

    /// The call is over with a failure.
    #[cold]
    fn failed(&mut self, local: &LocalClients, failure: Status, now: Instant) -> Poll<CallOutcome> {
        if let Some(pool) = local.known_pool(self.client) {
            self.count_end(&pool.tally, failure.code(), 0, now);
        }
        let failure = match self.maybe_executed {
            true => failure.maybe_executed(),
            false => failure,
        };
        self.over(Err(failure.of_call(self.method)))
    }

    /// Counts the call as ended, once.
    #[inline]
    fn count_end(&mut self, tally: &Tally, code: Code, bytes: usize, now: Instant) {
        if let Some(life) = self.life.take() {
            life.count(tally, self.method, code, bytes, now);
        }
    }

    fn over(&mut self, outcome: CallOutcome) -> Poll<CallOutcome> {
        self.stage = Stage::Over;
        Poll::Ready(outcome)
    }

    /// Gives the call to a connection, or waits for one. Ready with the failure.
    fn send(&mut self, local: &LocalClients, cx: &mut Context<'_>) -> Poll<Status> {
        let (place, avoid) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New { avoid } => (None, avoid),
            Stage::Waiting(place) => (Some(place), None),
            Stage::Failed(status) => {
                self.stage = Stage::Failed(status.clone());
                return Poll::Ready(status);
            }
            Stage::Flying(_) | Stage::Napping { .. } => {
                unreachable!("handled by the callers")
            }
            Stage::Over => panic!("a call was polled after it had ended"),
        };
        let pool = match local.pool(self.client) {
            Ok(pool) => pool,
            Err(status) => return Poll::Ready(status),
        };
        let now =
            if place.is_none() && self.attempt == 0 { self.begin(&pool) } else { runtime::now() };
        let deadline = self.deadline;
        let demand = Demand {
            now,
            deadline,
            waits_for_ready: self.options.waits_for_ready,
            avoid,
            key: self.options.key(),
            tried: self.tried,
        };
        let meta = self.options.encode_meta(&local.scratch);
        let until = deadline.map_or(NEVER, |deadline| local.since_origin(deadline));
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let sent = pool.send(&demand, place, cx.waker(), |link| {
            let cell = link.open(local, self.open(&meta, timeout), until, cx.waker())?;
            Ok((cell, Rc::clone(link)))
        });
        local.scratch.give_back(meta);
        match sent {
            Ok((cell, link)) => {
                let host = link.host.id();
                if pool.tally.learns_of_hosts() {
                    pool.tally.host_called(host, local.since_origin(now), false);
                }
                if let Some(life) = &mut self.life {
                    life.sent(now);
                }
                let lease_cuts = link.lease_cuts();
                let (link, begun) = (link.key, now);
                self.stage = Stage::Flying(Flying { cell, link, host, begun, lease_cuts });
            }
            Err(NotSent::Waits(place)) => self.stage = Stage::Waiting(place),
            Err(NotSent::Failed(status)) => return Poll::Ready(status),
        }
        Poll::Pending
    }

    /// Counts the call as begun, and its time from now on.
    #[inline]
    fn begin(&mut self, pool: &Pool) -> Instant {
        let (now, deadline) = self.options.span(self.method);
        self.deadline = deadline;
        self.life = Some(Life::begin(now));
        pool.tally.call_began(self.method, self.request.len());
        pool.earn_retry();
        now
    }

    #[inline]
    fn open<'a>(&'a self, meta: &'a [u8], timeout: Option<Duration>) -> Open<'a> {
        Open {
            method: self.method.number(),
            name: self.method.name(),
            timeout,
            codec: self.codec,
            attempt: self.attempt,
            priority: self.options.priority,
            initial_credit: limits::REPLY_CREDIT,
            meta,
            message: Some(link::body(&self.request)),
            end: true,
        }
    }

    /// Begins the call's time on a thread that is not its core. When it is to be over.
    pub(super) fn begin_elsewhere(&mut self) -> Option<Instant> {
        self.options.begin_elsewhere(self.method)
    }

    /// When the call is to be over, once it has begun.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Gives the call up if it is under way, on whatever thread.
    pub(super) fn give_up(&mut self) {
        let (core, client, method) = (self.core, self.client, self.method);
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let life = self.life.take();
        if matches!(stage, Stage::New { .. } | Stage::Failed(_) | Stage::Over) {
            return; // not begun, or over
        }
        local_clients::on_core(core, move |local| {
            let is_unanswered = match stage {
                Stage::Flying(Flying { cell, .. }) => local.abandon(cell, Code::Cancelled, ""),
                _ => false,
            };
            let Some(pool) = local.known_pool(client) else {
                return;
            };
            match stage {
                Stage::Flying(Flying { host, begun, .. }) => {
                    let until = is_unanswered.then(|| local.since_origin(runtime::now()));
                    pool.tally.host_left(host, local.since_origin(begun), until);
                }
                Stage::Waiting(place) => pool.leave(Some(place)),
                Stage::Napping { place, .. } => pool.end_nap(place),
                Stage::New { .. } | Stage::Failed(_) | Stage::Over => {}
            }
            if let Some(life) = life {
                life.count(&pool.tally, method, Code::Cancelled, 0, runtime::now());
            }
        });
    }
}

impl Drop for Unary {
    fn drop(&mut self) {
        self.give_up();
    }
}
