//! A sink on another thread than its core's, and the task on the core that empties its pipe.
//!
//! A handler's return ends its stream at once, so the core knows the pipes of its streams: messages
//! sent before the return are [passed on](pass_on) before the end.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ringway_runtime::drop_each;
use ringway_wire::native::Body;

use super::{HandleEnd, HandleSide, HeldBy, StreamAt, unreachable};
use crate::call::status::Status;
use crate::connection::carrier::{self, Carrier};
use crate::connection::driver::MESSAGE;
use crate::connection::table::SERVED;
use crate::remote::mailbox;
use crate::remote::pipe::{Receiver, Sender, pipe};

/// A writer on another thread than its core's.
pub(crate) struct RemoteWriter {
    at: StreamAt,
    pipe: Sender<Bytes, HandleEnd, Status>,
}

impl RemoteWriter {
    /// Posts a task for the stream to its core.
    pub(crate) fn start(at: StreamAt) -> Self {
        let (sender, receiver) = pipe();
        let start = move || {
            let outlet = Outlet { at, pipe: receiver, batch: RefCell::default() };
            let pump = WriterTask::new(outlet);
            drop(ringway_runtime::spawn_named("writer from elsewhere", pump));
        };
        mailbox::post(at.carrier.core(), Box::new(start));
        Self { at, pipe: sender }
    }

    /// Polls like [`Carrier::poll_ready`].
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.pipe.poll_room(cx).map_err(|status| status.unwrap_or_else(unreachable))
    }

    /// Puts a message into the pipe.
    ///
    /// # Errors
    /// Fails when the stream is over; the message is then dropped.
    pub(crate) fn send(&self, message: Bytes) -> Result<(), Status> {
        self.pipe.push(message).map_err(|status| status.unwrap_or_else(unreachable))
    }

    /// Leaves the stream. Messages sent before are delivered, unless the call is cancelled, which
    /// includes a client that drops its writer.
    pub(crate) fn leave(self, how: HandleEnd) {
        self.at.cancel_if(&how);
        match (&how, self.at.held_by) {
            (HandleEnd::Finished, _) | (HandleEnd::Dropped, HeldBy::Server) => self.pipe.end(how),
            (HandleEnd::Dropped | HandleEnd::Cancelled(_), _) => self.pipe.abort(how),
        }
    }
}

thread_local! {
    /// The outlets of this core's streams, each as long as its task lives.
    static OUTLETS: RefCell<HashMap<StreamAt, Rc<Outlet>>> = RefCell::default();
}

/// Sends at once all messages of a remote writer whose stream is about to end, even above the
/// stream's mark: the pipe bounds the excess. The writer's task must have been started.
#[cold]
pub(crate) fn pass_on(at: StreamAt) {
    let outlet = OUTLETS.with_borrow(|outlets| outlets.get(&at).cloned());
    if let Some(outlet) = outlet {
        carrier::with(at.carrier, |carrier| outlet.pass_on(carrier));
    }
}

/// The core's end of a remote writer.
struct Outlet {
    at: StreamAt,
    pipe: Receiver<Bytes, HandleEnd, Status>,
    /// Messages taken out of the pipe and not sent yet.
    batch: RefCell<VecDeque<Bytes>>,
}

impl Outlet {
    fn pump(&self, carrier: &dyn Carrier, cx: &mut Context<'_>) -> Poll<Result<HandleEnd, Status>> {
        loop {
            if self.batch.borrow().is_empty()
                && let Err(how) = ready!(self.poll_take(cx))
            {
                return Poll::Ready(Ok(how.unwrap_or(HandleEnd::Dropped)));
            }
            let Poll::Ready(ready) = carrier.poll_ready(self.at.key, cx) else {
                let aborted = self.pipe.poll_aborted(cx);
                return aborted.map(|how| Ok(how.unwrap_or(HandleEnd::Dropped)));
            };
            ready?;
            let message = self.batch.borrow_mut().pop_front();
            if let Some(message) = message {
                carrier.send(self.at.key, Body::Shared(message))?;
            }
        }
    }

    /// Takes a batch. Nothing is borrowed meanwhile, because the pipe wakes the writer.
    fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<(), Option<HandleEnd>>> {
        let mut batch = self.batch.take();
        let taken = self.pipe.poll_take(cx, &mut batch);
        self.batch.replace(batch);
        taken
    }

    /// Sends all messages. Later sends of the writer fail; its task handles the end.
    fn pass_on(&self, carrier: &dyn Carrier) {
        let over = Status::cancelled(SERVED);
        let batches = [self.batch.take(), self.pipe.take_last(over)];
        let mut messages = batches.into_iter().flatten();
        // Sending fails if the call is over for another reason than its handler's return.
        while let Some(message) = messages.next()
            && carrier.send(self.at.key, Body::Shared(message)).is_ok()
        {}
        drop_each(MESSAGE, messages);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        drop_each(MESSAGE, self.batch.take());
    }
}

/// Moves messages from the writer's pipe to the stream.
struct WriterTask(Rc<Outlet>);

impl WriterTask {
    fn new(outlet: Outlet) -> Self {
        let outlet = Rc::new(outlet);
        let former =
            OUTLETS.with_borrow_mut(|outlets| outlets.insert(outlet.at, Rc::clone(&outlet)));
        debug_assert!(former.is_none(), "a stream has one writer");
        Self(outlet)
    }
}

impl Future for WriterTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Outlet { at, pipe, .. } = &*self.0;
        match carrier::with(at.carrier, |carrier| self.0.pump(carrier, cx)) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(Ok(how))) => at.leave(HandleSide::Writer, how),
            Some(Poll::Ready(Err(status))) => {
                pipe.close(status);
                at.leave(HandleSide::Writer, HandleEnd::Dropped);
            }
            None => pipe.close(unreachable()),
        }
        Poll::Ready(())
    }
}

impl Drop for WriterTask {
    fn drop(&mut self) {
        // Dropped outside of any borrow, because that wakes the writer.
        let known = OUTLETS.try_with(|outlets| outlets.borrow_mut().remove(&self.0.at));
        drop(known);
    }
}
