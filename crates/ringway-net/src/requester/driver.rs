//! The task that reads replies and watches deadlines.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::{self as runtime, Sleep};
use ringway_wire::Codec;

use super::failure::Failure;
use super::waiting::{ReadId, Unanswered};
use super::{RequesterShared, answer};
use crate::connection::Peer;
use crate::error::{Error, Kind, Result};
use crate::framed::{Frames, Payload};

/// The future of that task; it runs until the connection or the last requester is gone.
pub(super) struct Driver<C> {
    shared: Weak<RequesterShared<C>>,
    frames: Frames<C>,
    read_id: Option<ReadId>,
    timer: Sleep,
}

impl<C> Driver<C> {
    pub(super) fn new(
        shared: Weak<RequesterShared<C>>,
        frames: Frames<C>,
        read_id: Option<ReadId>,
    ) -> Self {
        Self { shared, frames, read_id, timer: runtime::sleep(Duration::ZERO) }
    }

    /// Ends requests whose deadline has passed and arms the timer for the next. A timer that is too
    /// early, because its request was answered, stays armed: it costs one wake-up per timeout, not
    /// one per reply.
    fn poll_deadlines(&mut self, shared: &RequesterShared<C>, cx: &mut Context<'_>) {
        let origin = shared.state.borrow().origin;
        shared.expire(runtime::now().saturating_duration_since(origin));
        loop {
            let mut state = shared.state.borrow_mut();
            let Some(deadline) = state.waiting.next_deadline() else { return };
            if state.armed.is_none_or(|armed| deadline < armed) {
                let Some(at) = origin.checked_add(deadline) else { return };
                self.timer.reset(at);
                state.armed = Some(deadline);
            }
            drop(state);
            if Pin::new(&mut self.timer).poll(cx).is_pending() {
                return;
            }
            let due = shared.state.borrow_mut().armed.take();
            shared.expire(due.unwrap_or(deadline));
        }
    }
}

impl<C> Driver<C>
where
    C: Codec,
    for<'a> C::Item<'a>: Payload,
{
    /// Handles received replies; ready when the connection has ended.
    fn poll_replies(&mut self, shared: &RequesterShared<C>, cx: &mut Context<'_>) -> Poll<Failure> {
        loop {
            let view = match ready!(self.frames.poll_view(cx)) {
                Ok(Some(view)) => view,
                Ok(None) => return Poll::Ready(Failure::closed_by_peer()),
                Err(error) => return Poll::Ready(Failure::of(&error)),
            };
            let read_id = &mut self.read_id;
            let taken = self.frames.take(view, |frame| {
                shared.complete(frame.payload(), read_id).map(ControlFlow::Continue)
            });
            if let Err(error) = taken {
                return Poll::Ready(Failure::of(&error));
            }
        }
    }
}

/// Sound because the codec is never pinned.
impl<C> Unpin for Driver<C> {}

impl<C> Future for Driver<C>
where
    C: Codec,
    for<'a> C::Item<'a>: Payload,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = self.shared.upgrade() else { return Poll::Ready(()) };
        if let Poll::Ready(failure) = self.poll_replies(&shared, cx) {
            shared.fail(&failure);
            return Poll::Ready(());
        }
        self.poll_deadlines(&shared, cx);
        let former = shared.state.borrow_mut().driver.replace(cx.waker().clone());
        drop(former);
        shared.poll_room(cx)
    }
}

/// Fails the waiting requests when the driver ends by a panic of the codec or of `read_id`, or with
/// its core.
impl<C> Drop for Driver<C> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.fail(&Failure::driver_ended());
        }
    }
}

impl<C> RequesterShared<C> {
    /// Passes a reply to the caller that waits for it; a late reply is discarded.
    fn complete(&self, payload: &[u8], read_id: &mut Option<ReadId>) -> Result {
        let (id, reply) = match read_id {
            None => (None, payload),
            Some(read_id) => {
                let (id, reply) = read_id(payload).ok_or_else(no_id)?;
                (Some(id), reply)
            }
        };
        let reply_to = self.state.borrow_mut().waiting.complete(id)?;
        if let Some(reply_to) = reply_to.filter(|reply_to| !reply_to.is_closed()) {
            answer(reply_to, Ok(Bytes::copy_from_slice(reply)));
        }
        Ok(())
    }

    /// Ends the requests whose deadline is at or before `now`.
    fn expire(&self, now: Duration) {
        loop {
            let Some(reply_to) = self.state.borrow_mut().waiting.expire(now) else { return };
            answer(reply_to, Err(Unanswered::TimedOut));
        }
    }

    /// Notifies waiting requests when a congested send queue has room again; ready when it never
    /// will.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let peer = match &self.state.borrow().peer {
            Ok(peer) if self.is_congested() => Peer::of_inner(Rc::clone(peer.inner())),
            _ => return Poll::Pending,
        };
        let drained = ready!(peer.poll_drained(cx));
        self.state.borrow_mut().is_congested = false;
        self.changed.notify_waiters();
        match drained {
            Ok(()) => Poll::Pending,
            Err(error) => {
                self.fail(&Failure::of(&error));
                Poll::Ready(())
            }
        }
    }
}

fn no_id() -> Error {
    let what = "peer sent a reply without a request id: close the connection, and check read_id";
    Error::new(Kind::Protocol, what)
}
