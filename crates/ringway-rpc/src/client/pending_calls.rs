//! The calls of one core that wait for their reply.
//!
//! A call in a user's hands is `Send` and holds a key. The connection that carries the call knows the
//! same key and stores the reply here. So the connection's slot is free for the next call as soon as the
//! reply has arrived, whenever the user polls.

use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::StreamId;

use super::outcome::{CallOutcome, RawReply, ReplyMeta};
use crate::call::status::Status;
use crate::slab::{Slab, SlabKey};
use crate::waiters::LatestWaker;

/// Calls that were sent over connections of type `C`.
pub(super) struct PendingCalls<C> {
    calls: Slab<PendingCall<C>>,
}

/// A call that was sent, until its caller takes the outcome or cancels it.
pub(super) struct PendingCall<C> {
    /// `None` once the connection was lost.
    connection: Option<C>,
    stream: StreamId,
    waker: Option<Waker>,
    message: Option<Bytes>,
    end: Option<Result<(), Status>>,
    /// The approximate time of the end; the caller may poll much later.
    ended_at: Option<Duration>,
    meta: Option<Box<ReplyMeta>>,
}

/// The outcome of a call.
pub(super) struct EndedCall<C> {
    pub(super) outcome: CallOutcome,
    pub(super) at: Option<Duration>,
    /// The call's connection; `None` if it was lost.
    pub(super) connection: Option<C>,
}

impl<C> PendingCalls<C> {
    pub(super) const fn new() -> Self {
        Self { calls: Slab::new() }
    }

    /// Adds a call that has just been sent.
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

    /// Stores the message of a reply whose end comes later. False if there is a message already.
    pub(super) fn message(&mut self, key: SlabKey, message: Bytes) -> bool {
        let call = self.calls.get_mut(key);
        call.is_none_or(|call| call.message.replace(message).is_none())
    }

    /// The metadata of the reply, to be filled in.
    pub(super) fn meta(&mut self, key: SlabKey) -> Option<&mut ReplyMeta> {
        self.calls.get_mut(key).map(|call| &mut **call.meta.get_or_insert_default())
    }

    /// Ends the call and returns the waker to wake.
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

    /// Ends the call because its connection was lost. Returns the waker to wake.
    pub(super) fn lost(&mut self, key: SlabKey, failure: Status, now: Duration) -> Option<Waker> {
        let call = self.calls.get_mut(key)?;
        call.connection = None;
        call.ended_at = Some(now);
        call.end = Some(Err(failure));
        call.waker.take()
    }

    /// Takes the outcome of a call that has ended.
    #[inline]
    pub(super) fn take_ended(&mut self, key: SlabKey) -> Option<EndedCall<C>> {
        match self.calls.get(key) {
            Some(call) if call.end.is_none() => None,
            Some(_) => self.calls.remove_after(key, PendingCall::take_outcome),
            None => Some(EndedCall::unknown()),
        }
    }

    /// Polls for the outcome. A waker that is replaced is put into `former` and must be dropped after the
    /// borrow.
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
            _ => self.take_ended(key).map_or(Poll::Pending, Poll::Ready),
        }
    }

    /// Removes a call that was cancelled. Drop the result after the borrow, because a waker's destructor
    /// is user code.
    pub(super) fn remove(&mut self, key: SlabKey) -> Option<PendingCall<C>> {
        self.calls.remove(key)
    }

    /// Removes all calls at the core's end.
    pub(super) fn take_all(&mut self) -> Vec<PendingCall<C>> {
        self.calls.take_all()
    }
}

impl<C> PendingCall<C> {
    /// The connection and stream of the call, if it has no outcome yet.
    pub(super) fn under_way(&self) -> Option<(&C, StreamId)> {
        let connection = self.connection.as_ref().filter(|_| self.end.is_none())?;
        Some((connection, self.stream))
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Takes the outcome of a call that has ended. Its waker was taken at its end.
    #[inline]
    fn take_outcome(&mut self) -> EndedCall<C> {
        debug_assert!(self.waker.is_none(), "a caller's destructor must not run here");
        let outcome = match (self.end.take(), self.message.take()) {
            (Some(Err(status)), _) => Err(match self.meta.take() {
                Some(meta) => status.with_initial(meta.initial),
                None => status,
            }),
            (_, Some(message)) => Ok(RawReply { message, meta: self.meta.take() }),
            (_, None) => Err(Status::unimplemented("the reply has no message")),
        };
        EndedCall { outcome, at: self.ended_at, connection: self.connection.take() }
    }
}

impl<C> EndedCall<C> {
    #[cold]
    fn unknown() -> Self {
        let why = "a call was polled after its end";
        Self { outcome: Err(Status::internal(why)), at: None, connection: None }
    }
}
