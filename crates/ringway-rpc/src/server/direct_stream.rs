//! A call of any kind, made by code on the core: messages go in and come out one by one.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_runtime::drop_each;
use ringway_wire::native::{RequestHead, StreamId};

use super::connection::ServerConnection;
use super::direct::{DirectCalls, DirectMachine, DirectReply, DirectRequest, ENDED, Said};
use super::drain_alarm::DrainAlarm;
use crate::call::status::{Code, Status};
use crate::connection::driver::MESSAGE;

/// A call under way.
pub(super) struct DirectCall {
    connection: Rc<ServerConnection<DirectMachine>>,
    stream: StreamId,
    drain: DrainAlarm,
    is_done: bool,
}

impl DirectCall {
    fn new(connection: Rc<ServerConnection<DirectMachine>>, stream: StreamId) -> Self {
        Self { connection, stream, drain: DrainAlarm::default(), is_done: false }
    }
}

impl Future for DirectCall {
    type Output = DirectReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DirectReply> {
        let Self { connection, stream, drain, .. } = &mut *self;
        drain.poll(connection, *stream, cx);
        take_turn(connection, cx);
        let reply = connection.machine().take_reply(*stream);
        if let Some(reply) = reply {
            self.is_done = true;
            return Poll::Ready(reply);
        }
        // The handler that goes on is cancelled when this is dropped.
        match self.connection.is_ended() {
            true => Poll::Ready(DirectReply::failed(&Status::unavailable(ENDED))),
            false => Poll::Pending,
        }
    }
}

impl Drop for DirectCall {
    fn drop(&mut self) {
        if !self.is_done {
            self.connection.machine().give_up(self.stream);
            take_events(&self.connection);
            drop_each(MESSAGE, self.connection.take_discarded());
        }
    }
}

/// A call of any kind under way. It is cancelled when this is dropped before its end.
pub(super) struct DirectStream {
    connection: Rc<ServerConnection<DirectMachine>>,
    stream: StreamId,
    drain: DrainAlarm,
    is_begun: Cell<bool>,
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
    /// Makes a call, which begins when the future is first polled and is cancelled with it.
    pub(super) fn call(&self, request: DirectRequest) -> DirectCall {
        self.note_begin();
        let stream = self.connection().machine().begin(request);
        DirectCall::new(Rc::clone(self.connection()), stream)
    }

    /// Begins a call whose one message is there.
    pub(super) fn open_single(&self, request: DirectRequest) -> DirectStream {
        self.note_begin();
        let stream = self.connection().machine().begin(request);
        self.stream_of(stream)
    }

    /// Begins a call whose messages [`DirectUpload`] sends.
    pub(super) fn open_stream(&self, head: RequestHead, meta: Vec<u8>) -> DirectStream {
        self.note_begin();
        let begin = Said::Begin { head, meta, message: None, end: false };
        let stream = self.connection().machine().begin_with(begin, None);
        self.stream_of(stream)
    }

    /// Has `counts` told when the next request becomes a call, which counts from then on.
    pub(super) fn tell_of_begin(&self, counts: impl FnOnce() + 'static) {
        self.counts.set(Some(Box::new(counts)));
    }

    /// The request becomes a call.
    fn note_begin(&self) {
        self.counts.take().into_iter().for_each(|counts| counts());
    }

    fn stream_of(&self, stream: StreamId) -> DirectStream {
        let connection = Rc::clone(self.connection());
        let (drain, is_begun) = Default::default();
        DirectStream { connection, stream, drain, is_begun, is_done: false }
    }
}

impl DirectStream {
    pub(super) fn upload(&self) -> DirectUpload {
        DirectUpload { connection: Rc::clone(&self.connection), stream: self.stream }
    }

    /// Answers the call in place of its handler, because its request did not come whole.
    pub(super) fn fail(&self, status: &Status) {
        let mut machine = self.connection.machine();
        match status.code() {
            Code::DeadlineExceeded => machine.unserved.overdue += 1,
            Code::Unavailable | Code::Cancelled => {} // not its caller's fault
            _ => machine.unserved.malformed += 1,
        }
        machine.fail(self.stream, status);
    }

    /// Has the server admit the call, if that has not been asked of it.
    pub(super) fn begin(&self, cx: &mut Context<'_>) {
        if !self.is_begun.replace(true) {
            take_turn(&self.connection, cx);
        }
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
    /// Waits until the call runs and its handler has taken enough of what was sent.
    pub(super) async fn ready(&self) {
        poll_fn(|_cx| {
            match self.is_admitted() && self.connection.machine().may_push(self.stream) {
                true => Poll::Ready(()),
                false => Poll::Pending, // the connection's task is woken
            }
        })
        .await;
    }

    /// Whether the call does not wait in the queue of its method.
    fn is_admitted(&self) -> bool {
        !self.connection.calls.borrow_mut().is_waiting(self.stream)
    }

    pub(super) fn push(&self, message: Bytes) {
        self.connection.machine().push(self.stream, message);
    }

    pub(super) fn end(&self) {
        self.connection.machine().push_end(self.stream);
    }
}

/// Has the server hear what was said, and runs what that begins.
fn take_turn(connection: &Rc<ServerConnection<DirectMachine>>, cx: &mut Context<'_>) {
    connection.machine().has_news = false;
    connection.begin_turn(cx.waker());
    connection.begin_deferred();
    take_events(connection);
    connection.settle();
    connection.end_turn();
    drop_each(MESSAGE, connection.take_discarded());
    if connection.has_deferred() {
        cx.waker().wake_by_ref(); // the other tasks of the core come first
    }
}

fn take_events(connection: &Rc<ServerConnection<DirectMachine>>) {
    if connection.has_events() {
        let Ok(()) = connection.take_in(None);
    }
}
