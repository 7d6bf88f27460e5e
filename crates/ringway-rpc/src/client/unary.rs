//! A call with one request and one reply, from its first poll to its outcome.
//!
//! ```text
//!        ┌────────────────── once more: proved not executed ──────────────────┐
//!        ▼                                                                    │
//!       New ──► Waiting for room ──► Flying ──► outcome ──────────────────────┴──► Over
//!        └─────────────────────────────▲
//!  On a thread that is not its core, each of them becomes Far: a task of the core goes on with it.
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_runtime as runtime;
use ringway_wire::native::Open;

use super::cells::CellKey;
use super::far::Far;
use super::hub::{self, Hub, LinkKey};
use super::limits;
use super::line::Ticket;
use super::link::{self, NEVER};
use super::options::CallOptions;
use super::outcome::Outcome;
use super::pool::{Demand, NotSent};
use super::registry::{self, ClientId};
use crate::method::Method;
use crate::status::{Code, Status};

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
    /// It was placed once more because nobody had executed it.
    replaced: bool,
}

enum Stage {
    New { avoid: Option<LinkKey> },
    Waiting(Ticket),
    Flying { cell: CellKey, link: LinkKey },
    Far(Far),
    Failed(Status),
    Over,
}

impl Unary {
    /// A call that will begin when it is polled.
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
            replaced: false,
        }
    }

    /// Changes the options of a call that has not begun.
    pub(super) fn change_options(&mut self, change: impl FnOnce(CallOptions) -> CallOptions) {
        debug_assert!(matches!(self.stage, Stage::New { .. } | Stage::Failed(_)));
        self.options = change(std::mem::take(&mut self.options));
        if let Some(failure) = self.options.take_failure() {
            self.stage = Stage::Failed(failure);
        }
    }

    #[inline]
    fn poll_here(&mut self, hub: &Hub, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let Stage::Flying { cell, link } = self.stage else {
                match self.send(hub, cx) {
                    Poll::Ready(status) => return self.over(Err(status)),
                    Poll::Pending => return Poll::Pending,
                }
            };
            let polled = hub.cells.borrow_mut().poll(cell, cx);
            let Poll::Ready(outcome) = polled else {
                return Poll::Pending;
            };
            match outcome {
                Err(status) if self.may_be_sent_again(hub, &status, link) => {
                    self.replaced = true;
                    self.stage = Stage::New { avoid: Some(link) };
                }
                outcome => return self.over(outcome),
            }
        }
    }

    fn over(&mut self, outcome: Outcome) -> Poll<Outcome> {
        self.stage = Stage::Over;
        Poll::Ready(outcome)
    }

    /// Gives the call to a connection, or waits for one. Ready with the failure.
    fn send(&mut self, hub: &Hub, cx: &mut Context<'_>) -> Poll<Status> {
        let (place, avoid) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New { avoid } => (None, avoid),
            Stage::Waiting(place) => (Some(place), None),
            Stage::Failed(status) => return Poll::Ready(status),
            Stage::Flying { .. } | Stage::Far(_) => unreachable!("handled by the callers"),
            Stage::Over => panic!("a call was polled after it had ended"),
        };
        let pool = match hub.pool(self.client) {
            Ok(pool) => pool,
            Err(status) => return Poll::Ready(status),
        };
        let now = runtime::now();
        if place.is_none() && self.deadline.is_none() {
            self.deadline = self.options.deadline(self.method, now);
        }
        let deadline = self.deadline;
        let demand = Demand { now, deadline, waits_for_ready: self.options.waits_for_ready, avoid };
        let meta = self.options.encode_meta(hub);
        let until = deadline.map_or(NEVER, |deadline| hub.since_origin(deadline));
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let sent = pool.send(&demand, place, cx.waker(), |link| {
            let cell = link.open(hub, self.open(&meta, timeout), until, cx.waker())?;
            Ok((cell, link.key))
        });
        hub.return_scratch(meta);
        match sent {
            Ok((cell, link)) => self.stage = Stage::Flying { cell, link },
            Err(NotSent::Waits(place)) => self.stage = Stage::Waiting(place),
            Err(NotSent::Failed(status)) => return Poll::Ready(status),
        }
        Poll::Pending
    }

    #[inline]
    fn open<'a>(&'a self, meta: &'a [u8], timeout: Option<Duration>) -> Open<'a> {
        Open {
            method: self.method.number(),
            name: self.method.name(),
            timeout,
            codec: self.codec,
            attempt: u8::from(self.replaced),
            priority: self.options.priority,
            initial_credit: limits::REPLY_CREDIT,
            meta,
            message: Some(link::body(&self.request)),
            end: true,
        }
    }

    /// Whether nobody has executed the call, it was not sent again before, and there is somewhere
    /// else to send it to.
    fn may_be_sent_again(&self, hub: &Hub, status: &Status, from: LinkKey) -> bool {
        status.is_not_executed()
            && status.is_unavailable()
            && !self.replaced
            && hub.pool(self.client).is_ok_and(|pool| pool.has_other(from))
    }

    /// Goes on as a task of the call's core, or of the background core where it has none yet.
    #[cold]
    fn go_far(&mut self) -> Result<(), Status> {
        let core = match &self.stage {
            Stage::Waiting(_) | Stage::Flying { .. } => self.core,
            _ => registry::background_core()?,
        };
        let call = Unary {
            request: std::mem::take(&mut self.request),
            options: std::mem::take(&mut self.options),
            stage: std::mem::replace(&mut self.stage, Stage::Over),
            ..*self
        };
        self.stage = Stage::Far(Far::start(core, call));
        Ok(())
    }
}

impl Future for Unary {
    type Output = Outcome;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        if !matches!(this.stage, Stage::Far(_)) {
            let polled = hub::with(|hub| {
                let here = hub.core()?;
                let begun = matches!(this.stage, Stage::Waiting(_) | Stage::Flying { .. });
                if begun && this.core != here {
                    return None;
                }
                this.core = here;
                Some(this.poll_here(hub, cx))
            });
            if let Some(polled) = polled {
                return polled;
            }
            if let Err(status) = this.go_far() {
                return this.over(Err(status));
            }
        }
        let Stage::Far(far) = &this.stage else {
            unreachable!("it has just gone there");
        };
        let outcome = std::task::ready!(far.poll(cx));
        this.over(outcome)
    }
}

impl Drop for Unary {
    /// Gives the call up, on whatever thread.
    fn drop(&mut self) {
        let (core, client) = (self.core, self.client);
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Flying { cell, .. } => hub::on_core(core, move |hub| {
                hub.abandon(cell, Code::Cancelled, "");
            }),
            Stage::Waiting(place) => leave_line(core, client, place),
            Stage::New { .. } | Stage::Far(_) | Stage::Failed(_) | Stage::Over => {}
        }
    }
}

/// Gives up a place in the line of a pool, on whatever thread.
pub(super) fn leave_line(core: u32, client: ClientId, place: Ticket) {
    hub::on_core(core, move |hub| {
        if let Some(pool) = hub.known_pool(client) {
            pool.leave(Some(place));
        }
    });
}
