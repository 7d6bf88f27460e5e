//! The requests that wait for their replies, matched by order or by id.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sync::oneshot;
use ringway_wire::{IdMatcher, RequestId, SequentialMatcher};

use super::failure::Failure;
use crate::error::Result;

/// The sender of the reply to one request.
pub(super) type ReplyTo = oneshot::Sender<std::result::Result<Bytes, Unanswered>>;

/// Why a request got no reply.
pub(super) enum Unanswered {
    TimedOut,
    Failed(Failure),
}

/// Writes an id and a request into the payload of a frame.
pub(super) type WriteId = Box<dyn FnMut(RequestId, &[u8], &mut Vec<u8>)>;

/// Splits the payload of a frame into id and reply.
pub(super) type ReadId = Box<dyn for<'a> FnMut(&'a [u8]) -> Option<(RequestId, &'a [u8])>>;

/// Matches replies with their requests. Senders are returned to the caller, which uses or drops
/// them outside of any borrow.
pub(super) enum Waiting {
    InOrder(SequentialMatcher<ReplyTo>),
    ById(IdMatcher<ReplyTo>),
}

impl Waiting {
    pub(super) fn in_order(in_flight_max: usize) -> Self {
        Self::InOrder(SequentialMatcher::new(in_flight_max))
    }

    pub(super) fn by_id(in_flight_max: usize) -> Self {
        Self::ById(IdMatcher::with_u32_ids(in_flight_max))
    }

    /// Registers who waits for the reply to a request.
    pub(super) fn begin(
        &mut self,
        now: Duration,
        timeout: Duration,
        reply_to: ReplyTo,
    ) -> Result<RequestId> {
        Ok(match self {
            Self::InOrder(matcher) => matcher.begin(now, timeout, reply_to)?,
            Self::ById(matcher) => matcher.begin(now, timeout, reply_to)?,
        })
    }

    /// Returns the sender for a received reply: that of the oldest request, or that of `id`; `None`
    /// for a late reply.
    pub(super) fn complete(&mut self, id: Option<RequestId>) -> Result<Option<ReplyTo>> {
        Ok(match (self, id) {
            (Self::InOrder(matcher), _) => matcher.complete_next()?,
            (Self::ById(matcher), Some(id)) => matcher.complete(id),
            (Self::ById(_), None) => None,
        })
    }

    /// Removes the request that waits for the reply to `id`.
    pub(super) fn cancel(&mut self, id: RequestId) -> Option<ReplyTo> {
        match self {
            Self::InOrder(matcher) => matcher.cancel(id),
            Self::ById(matcher) => matcher.complete(id),
        }
    }

    /// Removes a request whose deadline is at or before `now`.
    pub(super) fn expire(&mut self, now: Duration) -> Option<ReplyTo> {
        let expired = match self {
            Self::InOrder(matcher) => matcher.poll_timeout(now),
            Self::ById(matcher) => matcher.poll_timeout(now),
        };
        expired.map(|(_, reply_to)| reply_to)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match self {
            Self::InOrder(matcher) => matcher.next_deadline(),
            Self::ById(matcher) => matcher.next_deadline(),
        }
    }

    /// Removes all requests.
    pub(super) fn fail_all(&mut self) -> Vec<ReplyTo> {
        match self {
            Self::InOrder(matcher) => matcher.fail_all().map(|(_, reply_to)| reply_to).collect(),
            Self::ById(matcher) => matcher.fail_all().map(|(_, reply_to)| reply_to).collect(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        match self {
            Self::InOrder(matcher) => matcher.in_flight(),
            Self::ById(matcher) => matcher.in_flight(),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
