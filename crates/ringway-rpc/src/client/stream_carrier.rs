//! The client connection as the handles of its streams use it.

use std::rc::Rc;
use std::task::{Context, Poll};

use ringway_runtime::drop_contained;
use ringway_wire::native::Body;

use super::connection::ClientConnection;
use super::connection_state::{ConnectionState, body};
use super::machine::ClientMachine;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::batch::Batch;
use crate::connection::carrier::{self, Carrier, Received};
use crate::connection::driver::MESSAGE;
use crate::connection::table::{Sending, StreamKey};
use crate::stream::pending::NOT_FINISHED;
use crate::stream::remote::{HeldBy, StreamAt};
use crate::waiters::{self, LatestWaker};

/// The location of a stream of `connection`, for its handles.
pub(super) fn stream_at(connection: &Rc<ClientConnection>, key: StreamKey) -> StreamAt {
    let register = || carrier::register(Rc::clone(connection) as _);
    let carrier = *connection.carrier.get_or_init(register);
    StreamAt { carrier, key, held_by: HeldBy::Client }
}

impl Carrier for ClientConnection {
    #[inline]
    fn poll_messages(
        &self,
        key: StreamKey,
        cx: &mut Context<'_>,
        batch: &mut Batch,
    ) -> Poll<Received> {
        let poll = |waker: &mut LatestWaker<'_>| {
            self.state().calls.streams.poll_messages(key, waker, batch)
        };
        waiters::poll_with(cx.waker(), poll)
    }

    fn taken(&self, key: StreamKey, messages: usize) {
        let state = &mut *self.quiet_state();
        let Some(stream) = state.calls.streams.stream(key) else {
            return;
        };
        state.machine.taken(stream, messages);
        if state.machine.has_output() {
            self.wake();
        }
    }

    fn poll_initial(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Metadata> {
        waiters::poll_with(cx.waker(), |waker| self.state().calls.streams.poll_initial(key, waker))
    }

    #[inline]
    fn poll_ready(&self, key: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        waiters::poll_with(cx.waker(), |waker| {
            let state = &mut *self.state();
            let Some(stream) = state.calls.streams.stream(key) else {
                return Poll::Ready(Err(state.calls.streams.failure(key).unwrap_or_else(over)));
            };
            if state.machine.has_room(stream) {
                return Poll::Ready(Ok(()));
            }
            state.calls.streams.wait_writable(key, waker);
            Poll::Pending
        })
    }

    #[inline]
    fn send(&self, key: StreamKey, message: Body<'_>) -> Result<bool, Status> {
        let Body::Shared(bytes) = message else { return self.put(key, message) };
        let sent = self.put(key, body(&bytes));
        drop_contained(MESSAGE, bytes);
        sent
    }

    fn finish(&self, key: StreamKey) {
        let state = &mut *self.quiet_state();
        if state.calls.streams.finish_writer(key)
            && let Some(stream) = state.calls.streams.stream(key)
        {
            state.machine.finish(stream);
            self.wake();
        }
    }

    fn cancel(&self, key: StreamKey, code: Code, reason: &str) {
        let ended = end_stream(&mut self.state(), key, code, reason);
        self.count_ended(ended);
        self.forget_if_unused();
    }

    fn drop_reader(&self, key: StreamKey) {
        let mut state = self.state();
        let ended = end_stream(&mut state, key, Code::Cancelled, "");
        state.calls.streams.drop_reader(key);
        drop(state);
        self.count_ended(ended);
        self.forget_if_unused();
    }

    fn drop_writer(&self, key: StreamKey) {
        let mut state = self.state();
        let stream = state.calls.streams.stream(key);
        let unfinished = state.calls.streams.drop_writer(key);
        let ended = stream.filter(|_| unfinished).map_or(0, |stream| {
            let ended = state.end_here(stream, Code::Cancelled, NOT_FINISHED);
            state.calls.streams.finish(stream, Err(Status::cancelled(NOT_FINISHED)));
            ended
        });
        drop(state);
        self.count_ended(ended);
        self.forget_if_unused();
    }
}

/// Ends a stream for the peer and for the handles at once, so that whoever is woken finds it over.
/// Returns the number of calls ended (0 or 1).
fn end_stream(state: &mut ConnectionState, key: StreamKey, code: Code, reason: &str) -> u32 {
    let Some(stream) = state.calls.streams.stream(key) else {
        return 0;
    };
    let ended = state.end_here(stream, code, reason);
    state.calls.streams.finish(stream, Err(Status::new(code, reason.to_owned())));
    ended
}

impl ClientConnection {
    #[inline]
    fn put(&self, key: StreamKey, body: Body<'_>) -> Result<bool, Status> {
        let state = &mut *self.quiet_state();
        let Some(Sending { stream, .. }) = state.calls.streams.begin_send(key) else {
            return Err(state.calls.streams.failure(key).unwrap_or_else(over));
        };
        let has_room = state.machine.send(stream, body, false).map_err(|_gone| over())?;
        self.wake();
        Ok(has_room)
    }

    /// Unregisters the connection once it has ended and no handle needs it.
    pub(super) fn forget_if_unused(&self) {
        if let Some(&carrier) = self.carrier.get()
            && self.is_gone()
            && self.known_state().calls.streams.is_empty()
        {
            carrier::unregister(carrier);
        }
    }
}

fn over() -> Status {
    Status::cancelled("the call is over")
}
