//! A call of any kind, made by code on the core: messages go in and come out one by one.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_runtime::drop_each;
use ringway_wire::native::{RequestHead, StreamId};

use super::connection::ServerConnection;
use super::direct::{DirectCalls, DirectMachine, DirectReply, ENDED, Said, take_events, take_turn};
use super::drain_alarm::DrainAlarm;
use crate::call::status::Status;
use crate::connection::driver::MESSAGE;

/// A call under way. It is cancelled when this is dropped before its end.
pub(super) struct DirectStream {
    connection: Rc<ServerConnection<DirectMachine>>,
    stream: StreamId,
    drain: DrainAlarm,
    is_done: bool,
}

/// What the server says of a call, in this order.
#[derive(Debug)]
pub(super) enum DirectEvent {
    /// Metadata before the first message; not every call has it.
    Initial(Vec<u8>),
    /// A message of a stream.
    Message(Bytes),
    /// The end, with the message of a method that replies by one.
    Done(DirectReply),
}

/// The caller's half of the messages.
pub(super) struct DirectUpload {
    connection: Rc<ServerConnection<DirectMachine>>,
    stream: StreamId,
}

impl DirectCalls {
    /// Begins a call whose one message is there, or a stream of requests that [`DirectUpload`] sends.
    pub(super) fn open_stream(
        &self,
        head: RequestHead,
        meta: Vec<u8>,
        message: Option<Bytes>,
    ) -> DirectStream {
        let connection = Rc::clone(self.connection());
        let end = message.is_some();
        let stream = connection.machine().begin_with(Said::Begin { head, meta, message, end });
        DirectStream { connection, stream, drain: DrainAlarm::default(), is_done: false }
    }
}

impl DirectStream {
    pub(super) fn upload(&self) -> DirectUpload {
        DirectUpload { connection: Rc::clone(&self.connection), stream: self.stream }
    }

    /// Answers the call in place of its handler, because its caller has broken a rule.
    pub(super) fn fail(&self, status: &Status) {
        let mut machine = self.connection.machine();
        machine.unserved.malformed += 1;
        machine.fail(self.stream, status);
    }

    /// The next event; none follows [`Done`](DirectEvent::Done).
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<DirectEvent> {
        let Self { connection, stream, drain, .. } = self;
        drain.poll(connection, *stream, cx);
        take_turn(connection, cx);
        let event = next_event(&mut connection.machine(), *stream);
        take_events(connection); // a writer may go on
        if let Some(event) = event {
            self.is_done = matches!(event, DirectEvent::Done(_));
            return Poll::Ready(event);
        }
        // The handler that goes on is cancelled when this is dropped.
        match connection.is_ended() {
            true => {
                Poll::Ready(DirectEvent::Done(DirectReply::failed(&Status::unavailable(ENDED))))
            }
            false => Poll::Pending,
        }
    }
}

fn next_event(machine: &mut DirectMachine, stream: StreamId) -> Option<DirectEvent> {
    if let Some(initial) = machine.take_initial(stream) {
        return Some(DirectEvent::Initial(initial));
    }
    if let Some(message) = machine.take_message(stream) {
        return Some(DirectEvent::Message(message));
    }
    machine.take_reply(stream).map(DirectEvent::Done)
}

impl Drop for DirectStream {
    fn drop(&mut self) {
        if !self.is_done {
            self.connection.machine().give_up(self.stream);
            take_events(&self.connection);
            drop_each(MESSAGE, self.connection.take_discarded());
        }
    }
}

impl DirectUpload {
    /// Waits until the handler has taken enough of what was sent.
    pub(super) async fn ready(&self) {
        poll_fn(|_cx| match self.connection.machine().may_push(self.stream) {
            true => Poll::Ready(()),
            false => Poll::Pending, // the connection's task is woken
        })
        .await;
    }

    pub(super) fn push(&self, message: Bytes) {
        self.connection.machine().push(self.stream, message);
    }

    pub(super) fn end(&self) {
        self.connection.machine().push_end(self.stream);
    }
}
