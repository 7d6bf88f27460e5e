//! Requests that wait for their replies, matched by order or by id.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sync::oneshot;
use ringway_wire::{Codec, IdMatcher, RequestId, SequentialMatcher};

use super::Failure;
use crate::error::{Error, Kind, Result};
use crate::framed::{Framed, Scratch};
use crate::limits::SCRATCH_BYTES_KEPT;

/// Where the reply to one request goes.
pub(super) type ReplyTo = oneshot::Sender<std::result::Result<Bytes, Unanswered>>;

/// Why there is no reply.
pub(super) enum Unanswered {
    TimedOut,
    Failed(Failure),
}

/// Writes `(id, request)` into the payload of a frame.
pub(super) type WriteId = Box<dyn FnMut(RequestId, &[u8], &mut Vec<u8>)>;

/// Splits the payload of a frame into id and reply.
pub(super) type ReadId = Box<dyn for<'a> FnMut(&'a [u8]) -> Option<(RequestId, &'a [u8])>>;

/// How replies find their requests.
pub(super) enum Waiting {
    InOrder(SequentialMatcher<ReplyTo>),
    ById {
        matcher: IdMatcher<ReplyTo>,
        write_id: WriteId,
        read_id: ReadId,
        /// Memory to join id and request in.
        payload: Vec<u8>,
    },
}

impl Waiting {
    /// Encodes a request and notes who waits for its reply. On an error nothing has changed.
    pub(super) fn begin<C: Codec>(
        &mut self,
        framed: &mut Framed<C>,
        request: &[u8],
        now: Duration,
        timeout: Duration,
        reply_to: ReplyTo,
    ) -> Result<(RequestId, Scratch)> {
        match self {
            Self::InOrder(matcher) => {
                // First what can fail: a place in the order cannot be given back.
                let encoded = framed.encode(request)?;
                Ok((matcher.begin(now, timeout, reply_to)?, encoded))
            }
            Self::ById { matcher, write_id, payload, .. } => {
                let id = matcher.begin(now, timeout, reply_to)?;
                payload.clear();
                payload.shrink_to(SCRATCH_BYTES_KEPT);
                write_id(id, request, payload);
                let encoded = framed.encode(payload);
                if encoded.is_err() {
                    matcher.complete(id);
                }
                Ok((id, encoded?))
            }
        }
    }

    /// Hands a reply to whoever waits for it; a late one goes to nobody.
    pub(super) fn complete(&mut self, payload: &[u8]) -> Result {
        let (reply_to, reply) = match self {
            Self::InOrder(matcher) => (matcher.complete_next()?, payload),
            Self::ById { matcher, read_id, .. } => {
                let (id, reply) = read_id(payload).ok_or_else(no_id)?;
                (matcher.complete(id), reply)
            }
        };
        if let Some(reply_to) = reply_to.filter(|reply_to| !reply_to.is_closed()) {
            // Refused only if the requester has gone, and it was asked a moment ago.
            let _ = reply_to.send(Ok(Bytes::copy_from_slice(reply)));
        }
        Ok(())
    }

    /// Nobody waits for the reply to `id` any more.
    pub(super) fn cancel(&mut self, id: RequestId) {
        match self {
            Self::InOrder(matcher) => matcher.cancel(id),
            Self::ById { matcher, .. } => matcher.complete(id),
        };
    }

    /// Ends the requests whose deadline is not after `now`.
    pub(super) fn expire(&mut self, now: Duration) {
        let mut next = || match self {
            Self::InOrder(matcher) => matcher.poll_timeout(now),
            Self::ById { matcher, .. } => matcher.poll_timeout(now),
        };
        while let Some((_, reply_to)) = next() {
            let _ = reply_to.send(Err(Unanswered::TimedOut));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        match self {
            Self::InOrder(matcher) => matcher.next_deadline(),
            Self::ById { matcher, .. } => matcher.next_deadline(),
        }
    }

    /// Ends all requests.
    pub(super) fn fail_all(&mut self, failure: &Failure) {
        let fail = |(_, reply_to): (RequestId, ReplyTo)| {
            let _ = reply_to.send(Err(Unanswered::Failed(failure.clone())));
        };
        match self {
            Self::InOrder(matcher) => matcher.fail_all().for_each(fail),
            Self::ById { matcher, .. } => matcher.fail_all().for_each(fail),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        match self {
            Self::InOrder(matcher) => matcher.in_flight(),
            Self::ById { matcher, .. } => matcher.in_flight(),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

fn no_id() -> Error {
    let what = "peer sent a reply without a request id: close the connection, and check read_id";
    Error::new(Kind::Protocol, what)
}
