//! The calls of one core that wait for their reply.
//!
//! A call in a user's hands is `Send` and holds a key. The connection that carries the call knows the
//! same key and puts the reply here. So the connection's slot is free for the next call as soon as
//! the reply has come, whenever the user looks at it.

use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::StreamId;

use super::outcome::{CallOutcome, RawReply, ReplyMeta};
use crate::call::status::Status;
use crate::slab::{Slab, SlabKey};
use crate::waiters::LatestWaker;

/// Calls that were sent over connections `C`.
pub(super) struct PendingCalls<C> {
    calls: Slab<PendingCall<C>>,
}

/// A call that was sent, until its caller has the outcome or gives it up.
pub(super) struct PendingCall<C> {
    /// `None` once the connection was lost.
    connection: Option<C>,
    stream: StreamId,
    waker: Option<Waker>,
    message: Option<Bytes>,
    end: Option<Result<(), Status>>,
    /// About when that came; nobody may look at it for long.
    ended_at: Option<Duration>,
    meta: Option<Box<ReplyMeta>>,
}

/// The outcome of a call, to be taken once.
pub(super) struct EndedCall<C> {
    pub(super) outcome: CallOutcome,
    pub(super) at: Option<Duration>,
    /// `None` if it was lost.
    pub(super) connection: Option<C>,
}

impl<C> PendingCalls<C> {
    pub(super) const fn new() -> Self {
        Self { calls: Slab::new() }
    }

    /// Enters a call that has just been given to a connection.
    #[inline]
    pub(super) fn insert(&mut self, connection: C, stream: StreamId, waker: Waker) -> SlabKey {
        self.calls.insert(PendingCall {
            connection: Some(connection),
            stream,
            waker: Some(waker),
            message: None,
            end: None,
            ended_at: None,
            meta: None,
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Keeps the message of a reply whose end comes later. `false`: there is one already.
    pub(super) fn message(&mut self, key: SlabKey, message: Bytes) -> bool {
        let call = self.calls.get_mut(key);
        call.is_none_or(|call| call.message.replace(message).is_none())
    }

    /// What the peer says before its message or at the end, to be filled in.
    pub(super) fn meta(&mut self, key: SlabKey) -> Option<&mut ReplyMeta> {
        self.calls.get_mut(key).map(|call| &mut **call.meta.get_or_insert_default())
    }

    /// The call is over; whom to wake.
    #[inline]
    pub(super) fn end(
        &mut self,
        key: SlabKey,
        outcome: Result<Option<Bytes>, Status>,
        now: Duration,
    ) -> Option<Waker> {
        let call = self.calls.get_mut(key)?;
        debug_assert!(call.end.is_none(), "a call ends once");
        call.ended_at = Some(now);
        call.end = Some(match outcome {
            Ok(None) => Ok(()),
            Ok(message) if call.message.is_none() => {
                call.message = message;
                Ok(())
            }
            Ok(Some(_)) => Err(Status::unimplemented("the reply has more than one message")),
            Err(status) => Err(status),
        });
        call.waker.take()
    }

    /// The call is over because its connection is; whom to wake.
    pub(super) fn lost(&mut self, key: SlabKey, failure: Status, now: Duration) -> Option<Waker> {
        let call = self.calls.get_mut(key)?;
        call.connection = None;
        call.ended_at = Some(now);
        call.end = Some(Err(failure));
        call.waker.take()
    }

    /// The outcome, once. A waker that another one takes the place of is put into `former`, to be
    /// dropped when the calls are no longer borrowed.
    #[inline]
    pub(super) fn poll(
        &mut self,
        key: SlabKey,
        waker: &mut LatestWaker<'_>,
        former: &mut Option<Waker>,
    ) -> Poll<EndedCall<C>> {
        match self.calls.get_mut(key) {
            Some(call) if call.end.is_none() => {
                *former = waker.renew(&mut call.waker);
                Poll::Pending
            }
            _ => Poll::Ready(self.calls.remove(key).map_or_else(EndedCall::unknown, Into::into)),
        }
    }

    /// The call is given up; what is left of it is to be dropped when the calls are no longer
    /// borrowed, since a waker's destructor is foreign code.
    pub(super) fn remove(&mut self, key: SlabKey) -> Option<PendingCall<C>> {
        self.calls.remove(key)
    }

    /// All calls are given up, at the core's end.
    pub(super) fn take_all(&mut self) -> Vec<PendingCall<C>> {
        self.calls.take_all()
    }
}

impl<C> PendingCall<C> {
    /// Where the call is under way, if it has no outcome yet.
    pub(super) fn under_way(&self) -> Option<(&C, StreamId)> {
        let connection = self.connection.as_ref().filter(|_| self.end.is_none())?;
        Some((connection, self.stream))
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }
}

impl<C> EndedCall<C> {
    #[cold]
    fn unknown() -> Self {
        let why = "a call was polled after its end";
        Self { outcome: Err(Status::internal(why)), at: None, connection: None }
    }
}

impl<C> From<PendingCall<C>> for EndedCall<C> {
    #[inline]
    fn from(call: PendingCall<C>) -> Self {
        let PendingCall { connection, message, end, ended_at: at, meta, .. } = call;
        let outcome = match (end, message) {
            (Some(Err(status)), _) => Err(status),
            (_, Some(message)) => Ok(RawReply { message, meta }),
            (_, None) => Err(Status::unimplemented("the reply has no message")),
        };
        Self { outcome, at, connection }
    }
}
