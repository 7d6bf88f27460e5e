//! One attempt of a unary call: it waits for room, is sent, and is in flight until its outcome.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime as runtime;
use ringway_wire::native::Open;

use super::connection::{ClientConnection, ConnectionId, SentCall};
use super::connection_state::{NEVER, body};
use super::endpoints::PickArgs;
use super::load_balancer::{AnsweredCall, CountedCall, EndpointId};
use super::local_clients::LocalClients;
use super::options::{CallDeadline, CallOptions};
use super::pending_calls::EndedCall;
use super::pool::{NotSent, Pool};
use super::registry::ClientId;
use super::wait_queue::WaiterKey;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::limits;

/// The request of a unary call, which all its attempts send.
pub(super) struct UnaryRequest {
    pub(super) client: ClientId,
    pub(super) method: &'static Method,
    pub(super) message: Bytes,
    pub(super) codec: u8,
    pub(super) options: CallOptions,
    /// The call's deadline, from its first attempt on.
    pub(super) deadline: Option<CallDeadline>,
    /// The number of attempts before this one.
    pub(super) attempt: u8,
    /// The endpoint of the previous attempt.
    pub(super) tried: Option<EndpointId>,
}

/// The state of an attempt. It is `Send` because it refers to objects of its core by keys only.
#[derive(Clone, Copy)]
pub(super) enum Attempt {
    /// Not sent yet; preferably not over the connection `avoid`.
    New {
        avoid: Option<ConnectionId>,
    },
    Waiting {
        waiter: WaiterKey,
        avoid: Option<ConnectionId>,
    },
    InFlight(SentAttempt),
}

#[derive(Clone, Copy)]
pub(super) struct SentAttempt {
    pub(super) sent: SentCall,
    pub(super) begun: Duration,
    counted: CountedCall,
}

impl Attempt {
    /// Sends the attempt over a connection, or puts it into the queue for one.
    ///
    /// # Errors
    /// Fails when there is nothing to wait for.
    pub(super) fn send(
        &mut self,
        request: &UnaryRequest,
        now: Duration,
        pool: &Rc<Pool>,
        local: &LocalClients,
        cx: &Context<'_>,
    ) -> Result<(), Status> {
        let (waiter, avoid) = match *self {
            Self::New { avoid } => (None, avoid),
            Self::Waiting { waiter, avoid } => (Some(waiter), avoid),
            Self::InFlight(_) => return Ok(()),
        };
        let UnaryRequest { options, deadline, tried, .. } = request;
        let until = deadline.map_or(NEVER, |deadline| deadline.at);
        let args = PickArgs {
            now,
            until,
            waits_for_ready: options.waits_for_ready,
            avoid,
            key: options.key(),
            tried: *tried,
        };
        let meta = options.encode_meta(&local.scratch);
        let timeout = args.timeout();
        let sent = pool.send(&args, waiter, cx.waker(), |connection| {
            connection.open(request.open(&meta, timeout), until, cx.waker())
        });
        local.scratch.give_back(meta);
        *self = match sent {
            Ok(sent) => {
                let balancer = &pool.context().balancer;
                let counted = match balancer.is_active() {
                    true => balancer.sent(sent.endpoint, now, false),
                    false => CountedCall::default(),
                };
                Self::InFlight(SentAttempt { sent, begun: now, counted })
            }
            Err(NotSent::Waits(waiter)) => Self::Waiting { waiter, avoid },
            Err(NotSent::Failed(status)) => return Err(status),
        };
        Ok(())
    }

    /// Cancels the attempt on its core. `pool` is `None` if the client was dropped.
    pub(super) fn give_up(self, local: &LocalClients, pool: Option<&Pool>) {
        match self {
            Self::New { .. } => {}
            Self::Waiting { waiter, .. } => {
                if let Some(pool) = pool {
                    pool.stop_waiting(Some(waiter));
                }
            }
            Self::InFlight(SentAttempt { sent, begun, counted }) => {
                let is_unanswered = local.abandon(sent.pending, Code::Cancelled, "");
                if let Some(pool) = pool {
                    let until = is_unanswered.then(runtime::uptime);
                    pool.context().balancer.given_up(counted, begun, until);
                }
            }
        }
    }
}

impl SentAttempt {
    /// Polls for the outcome, with the approximate time at which it arrived.
    #[inline]
    pub(super) fn poll(
        &self,
        local: &LocalClients,
        cx: &Context<'_>,
    ) -> Poll<(EndedCall<Rc<ClientConnection>>, Duration)> {
        local.poll_pending(self.sent.pending, cx).map(|ended| {
            let at = ended.at.map_or(self.begun, |at| at.max(self.begun));
            (ended, at)
        })
    }

    /// Reports the outcome to the load balancer.
    #[inline]
    pub(super) fn report(&self, failure: Option<&Status>, now: Duration, pool: &Pool) {
        let context = pool.context();
        if context.balancer.is_active() {
            let answered = AnsweredCall { failure, begun: self.begun, now, has_latency: true };
            context.balancer.answered(self.counted, answered);
        }
    }

    /// Whether the server has lowered the connection's lease since the attempt was sent.
    pub(super) fn has_crossed_cut(&self, connection: &ClientConnection) -> bool {
        connection.lease_cuts() != self.sent.lease_cuts
    }
}

impl UnaryRequest {
    /// Whether the call's own properties allow another attempt.
    pub(super) fn may_be_repeated(&self) -> bool {
        self.options.is_idempotent(self.method)
            && !self.options.is_nested_retry
            && self.attempt + 1 < limits::ATTEMPTS_MAX
            && self.message.len() <= limits::REPLAY_BYTES_MAX
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
            message: Some(body(&self.message)),
            end: true,
        }
    }
}
