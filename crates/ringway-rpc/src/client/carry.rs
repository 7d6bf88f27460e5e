//! A connection as the handles of its streams see it.

use std::rc::Rc;
use std::task::{Context, Poll};

use ringway_wire::native::Body;

use super::link::Link;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::carrier::{self, Carrier, Received};
use crate::connection::table::StreamKey;
use crate::stream::remote::{HeldBy, StreamAt};

/// Where handles find a stream of `link`.
pub(super) fn stream_at(link: &Rc<Link>, key: StreamKey) -> StreamAt {
    let carrier = *link.carrier.get_or_init(|| carrier::register(Rc::clone(link) as _));
    StreamAt { carrier, key, held_by: HeldBy::Client }
}

impl Carrier for Link {
    #[inline]
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        self.state().streams.poll_messages(key, cx, batch)
    }

    fn taken(&self, key: StreamKey, messages: usize) {
        let state = &mut *self.state();
        let Some(stream) = state.streams.stream(key) else {
            return;
        };
        state.machine.taken(stream, messages);
        if state.machine.has_output() {
            self.stir();
        }
    }

    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata> {
        self.state().streams.poll_initial(key, cx)
    }

    #[inline]
    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let state = &mut *self.state();
        let Some(stream) = state.streams.stream(key) else {
            return Poll::Ready(Err(state.streams.failure(key).unwrap_or_else(over)));
        };
        if state.machine.has_room(stream) {
            return Poll::Ready(Ok(()));
        }
        state.streams.wait_writable(key, cx);
        Poll::Pending
    }

    #[inline]
    fn send(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status> {
        let state = &mut *self.state();
        let Some(stream) = state.streams.stream(key) else {
            return Err(state.streams.failure(key).unwrap_or_else(over));
        };
        let has_room = state.machine.send(stream, body, false).map_err(|_gone| over())?;
        self.stir();
        Ok(has_room)
    }

    fn finish(&self, key: StreamKey) {
        let state = &mut *self.state();
        if state.streams.finish_writer(key)
            && let Some(stream) = state.streams.stream(key)
        {
            state.machine.finish(stream);
            self.stir();
        }
    }

    fn cancel(&self, key: StreamKey, code: Code, reason: &str) {
        let stream = self.known_state().streams.stream(key);
        let Some(stream) = stream else {
            return;
        };
        self.end_call(stream, code, reason);
        let status = Status::new(code, reason.to_owned());
        self.state().streams.finish(stream, Err(status));
        self.forget_if_unused();
    }

    fn drop_reader(&self, key: StreamKey) {
        self.cancel(key, Code::Cancelled, "");
        self.state().streams.drop_reader(key);
        self.forget_if_unused();
    }

    fn drop_writer(&self, key: StreamKey) {
        let stream = self.known_state().streams.stream(key);
        let unfinished = self.state().streams.drop_writer(key);
        if let Some(stream) = stream.filter(|_| unfinished) {
            let why = "the sender was dropped before it had finished";
            self.end_call(stream, Code::Cancelled, why);
            self.state().streams.finish(stream, Err(Status::cancelled(why)));
        }
        self.forget_if_unused();
    }
}

impl Link {
    /// Ends the registration once the connection is gone and no handle is left to find it.
    pub(super) fn forget_if_unused(&self) {
        if let Some(&carrier) = self.carrier.get()
            && self.is_gone()
            && self.known_state().streams.is_empty()
        {
            carrier::unregister(carrier);
        }
    }
}

fn over() -> Status {
    Status::cancelled("the call is over")
}
