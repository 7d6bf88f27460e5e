//! Calls that come from code on the core instead of frames: what HTTP is translated to.
//!
//! [`DirectMachine`] takes the place of a protocol's machine, so a call is admitted, limited, run, cancelled and
//! counted by the same code, whoever makes it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_http::{BodyAccount, ReplyAccount, Request};
use ringway_net::{Connection, WeakPeer};
use ringway_wire::native::{
    Body, GoAwayCode, Gone, MetaWriter, Outgoing, Piece, PlainRequest, Reply, RequestHead,
    ServerEvent, Side, StreamId, Unserved,
};

use super::connection::ServerConnection;
use super::core::ServerCore;
use super::direct_flow::DirectFlow;
use super::machine::{Machine, Translation};
use crate::call::context::Site;
use crate::call::status::{Code, Status};

/// The calls of one connection, by the slots of their streams.
#[derive(Debug, Default)]
pub(crate) struct DirectMachine {
    pub(super) slots: Vec<DirectSlot>,
    free: Vec<u32>,
    /// What callers have said and the server has not heard.
    pub(super) said: VecDeque<(StreamId, Said)>,
    cancelled: VecDeque<StreamId>,
    /// Calls that were answered in place of their handlers, with the code.
    pub(super) failed: VecDeque<(StreamId, Code)>,
    /// Streams that may send again.
    pub(super) writable: VecDeque<StreamId>,
    /// Bytes of requests that no handler has taken, and of replies that no caller has.
    pub(super) unread: usize,
    pub(super) unsent: usize,
    /// The body that is being read for the next call.
    body: BodyAccount,
    /// The connection that replies leave on, and what HTTP keeps of them.
    peer: Option<WeakPeer>,
    replies: ReplyAccount,
    /// Whether a caller that waits for room may go on.
    pub(super) has_news: bool,
    pub(super) unserved: Unserved,
    /// Replies that nobody took.
    pub(super) discarded: Vec<Bytes>,
}

/// What a caller says of a call.
#[derive(Debug)]
pub(super) enum Said {
    /// It begins; the message and the end are there where they came at once.
    Begin {
        head: RequestHead,
        meta: Vec<u8>,
        message: Option<Bytes>,
        end: bool,
    },
    Message(Bytes),
    End,
}

#[derive(Debug)]
pub(super) struct DirectSlot {
    /// The stream that uses it, or the next one that will.
    pub(super) stream: StreamId,
    pub(super) state: SlotState,
    /// How its message becomes what its method takes, until the call runs.
    translation: Option<Translation>,
    pub(super) flow: DirectFlow,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Free,
    Running,
    Answered(DirectReply),
}

/// A unary call, as a machine tells of it.
#[derive(Debug)]
pub(super) struct DirectRequest {
    /// Its `method` is the method's index in the core's table plus one.
    pub(super) head: RequestHead,
    /// Written by a [`MetaWriter`](ringway_wire::native::MetaWriter).
    pub(super) meta: Vec<u8>,
    pub(super) message: Bytes,
    /// How the message becomes what the method takes, if it is not that already.
    pub(super) translation: Option<Translation>,
}

/// How a call has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DirectReply {
    /// The number of a [`Code`].
    pub(super) status: u8,
    pub(super) meta: Vec<u8>,
    pub(super) message: Bytes,
    /// Metadata that the handler has sent before its reply.
    pub(super) initial: Vec<u8>,
}

impl DirectReply {
    /// The failure of a call that ends without its handler.
    pub(super) fn failed(status: &Status) -> Self {
        let mut meta = Vec::new();
        status.write(&mut MetaWriter::new(&mut meta));
        Self { status: status.code().number(), meta, ..Self::default() }
    }
}

impl DirectMachine {
    pub(super) fn begin(&mut self, request: DirectRequest) -> StreamId {
        let DirectRequest { head, meta, message, translation } = request;
        self.begin_with(Said::Begin { head, meta, message: Some(message), end: true }, translation)
    }

    pub(super) fn begin_with(&mut self, begin: Said, translation: Option<Translation>) -> StreamId {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len() as u32;
            let stream = StreamId::new(slot, StreamId::GENERATION_FIRST);
            let (state, flow) = (SlotState::Free, DirectFlow::default());
            self.slots.push(DirectSlot { stream, state, translation: None, flow });
            slot
        });
        let DirectSlot { stream, state, translation: of_slot, .. } = &mut self.slots[slot as usize];
        (*state, *of_slot) = (SlotState::Running, translation);
        if let Said::Begin { message: Some(message), .. } = &begin {
            self.unread += message.len();
        }
        self.said.push_back((*stream, begin));
        *stream
    }

    pub(super) fn slot(&mut self, stream: StreamId) -> Option<&mut DirectSlot> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        (slot.stream == stream && slot.state != SlotState::Free).then_some(slot)
    }

    /// Takes the reply out; its slot is free then.
    pub(super) fn take_reply(&mut self, stream: StreamId) -> Option<DirectReply> {
        let slot = self.slot(stream)?;
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(mut reply) => {
                reply.initial = slot.flow.initial.take().unwrap_or_default();
                self.release(stream);
                Some(reply)
            }
            state => {
                slot.state = state;
                None
            }
        }
    }

    /// Nobody waits for this call any more.
    pub(super) fn give_up(&mut self, stream: StreamId) {
        let Some(slot) = self.slot(stream) else { return };
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(reply) => self.discarded.push(reply.message),
            _ => self.cancelled.push_back(stream),
        }
        self.release(stream);
    }

    fn release(&mut self, stream: StreamId) {
        self.clear_flow(stream);
        let slot = &mut self.slots[stream.slot() as usize];
        (slot.stream, slot.translation) = (stream.next(), None);
        self.free.push(stream.slot());
    }

    /// Bytes of replies that callers have taken and the client has not; none once the connection is given up.
    fn replies_len(&self) -> usize {
        let peer = self.peer.as_ref().filter(|_| !self.replies.is_given_up());
        let queued = peer.and_then(WeakPeer::upgrade).map(|peer| peer.queued_bytes());
        queued.map_or(0, |queued| queued + self.replies.kept())
    }

    /// The next thing that a caller has said of a call that is not over.
    fn next_said(&mut self) -> Option<(StreamId, Said)> {
        loop {
            let (stream, said) = self.said.pop_front()?;
            let is_live = self.slot(stream).is_some_and(|slot| slot.state == SlotState::Running);
            if let Said::Begin { message, .. } = &said {
                self.unread -= message.as_ref().map_or(0, Bytes::len);
                if !is_live {
                    // A call that was over before it began never begins.
                    self.cancelled.retain(|cancelled| *cancelled != stream);
                    self.failed.retain(|(failed, _)| *failed != stream);
                }
            }
            if is_live {
                return Some((stream, said));
            }
        }
    }
}

impl Machine for DirectMachine {
    type Violation = Infallible;

    const NAME: &'static str = "HTTP";
    const NUMBERS_ARE_INDICES: bool = true;
    const TRANSLATES: bool = true;

    fn takes(head: &RequestHead, codec: u8) -> bool {
        head.codec == codec
    }

    fn is_leave(violation: &Infallible) -> bool {
        match *violation {}
    }

    fn is_drained(&self) -> bool {
        self.in_flight() == 0
    }

    fn receive_plain<'i>(&mut self, _: &mut &'i [u8], _: Duration) -> Option<PlainRequest<'i>> {
        None
    }

    fn receive<'i>(
        &mut self,
        _: &mut &'i [u8],
        _: Duration,
    ) -> Result<Option<ServerEvent<'i>>, Infallible> {
        if let Some((stream, said)) = self.next_said() {
            let message = |message| Piece::Owned(message);
            return Ok(Some(match said {
                Said::Begin { head, meta, message: first, end } => {
                    let (meta, message) = (Piece::Owned(meta.into()), first.map(message));
                    ServerEvent::Request { stream, head, meta, message, end }
                }
                Said::Message(next) => {
                    ServerEvent::Message { stream, message: message(next), end: false }
                }
                Said::End => ServerEvent::End { stream },
            }));
        }
        if let Some((stream, code)) = self.failed.pop_front() {
            return Ok(Some(ServerEvent::Failed { stream, code: code.number() }));
        }
        if let Some(stream) = self.writable.pop_front() {
            return Ok(Some(ServerEvent::Writable { stream }));
        }
        Ok(self.cancelled.pop_front().map(|stream| ServerEvent::Cancelled {
            stream,
            code: Code::Cancelled.number(),
            reason: Piece::Borrowed(b"the client has gone"),
        }))
    }

    fn receive_message<'i>(&mut self, _: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        None
    }

    fn take_translation(&mut self, stream: StreamId) -> Option<Translation> {
        self.slot(stream)?.translation.take()
    }

    fn note_translated(&mut self, stream: StreamId, len: usize) {
        if let Some(slot) = self.slot(stream) {
            slot.flow.unread_len += len;
            self.unread += len;
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn has_events(&self) -> bool {
        let is_quiet = self.said.is_empty() && self.cancelled.is_empty();
        !(is_quiet && self.failed.is_empty() && self.writable.is_empty())
    }

    /// No output: this has the connection's task woken.
    fn has_output(&self) -> bool {
        self.has_news
    }

    fn output_len(&self) -> usize {
        0
    }

    fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.unread + self.body.kept(),
            Side::Unsent => self.unsent + self.replies_len(),
        }
    }

    fn spare_len(&self) -> usize {
        0
    }

    fn unserved(&self) -> Unserved {
        self.unserved
    }

    fn failure(&self, stream: StreamId) -> Option<u8> {
        let failed = self.failed.iter().find(|(of, _)| *of == stream);
        failed.map(|(_, code)| code.number())
    }

    fn has_room(&self, stream: StreamId) -> bool {
        self.may_send(stream)
    }

    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    fn respond(&mut self, stream: StreamId, reply: Reply<'_>) -> Option<u8> {
        let slot = self.slot(stream).filter(|slot| slot.state == SlotState::Running)?;
        let message = match reply.message {
            None => Bytes::new(),
            Some(Body::Copy(bytes)) => Bytes::copy_from_slice(bytes),
            Some(Body::Shared(bytes)) => bytes,
        };
        let meta = reply.meta.to_vec();
        let initial = Vec::new();
        slot.state =
            SlotState::Answered(DirectReply { status: reply.status, meta, message, initial });
        Some(reply.status)
    }

    fn send(&mut self, stream: StreamId, meta: &[u8], message: Body<'_>) -> Result<bool, Gone> {
        self.send_reply(stream, meta, message)
    }

    fn send_initial(&mut self, stream: StreamId, meta: &[u8]) -> Result<(), Gone> {
        self.slot(stream).ok_or(Gone)?.flow.initial = Some(meta.to_vec());
        Ok(())
    }

    /// Whoever makes a call that takes one message has waited for it.
    fn await_rest(&mut self, _: StreamId, _: RequestHead, _: &[u8], _: Option<&[u8]>) {}

    fn taken(&mut self, stream: StreamId, messages: usize) {
        self.take_messages(stream, messages);
    }

    fn ignore(&mut self, stream: StreamId) {
        self.ignore_messages(stream);
    }

    fn largest_len(&mut self, side: Side) -> usize {
        let called = self.largest(side).map_or(0, |(len, _)| len);
        match side {
            Side::Unread => called.max(self.body.kept()),
            Side::Unsent => called.max(self.replies_len()),
        }
    }

    fn end_largest(&mut self, side: Side) -> bool {
        let largest = self.largest(side);
        let called = largest.map_or(0, |(len, _)| len);
        if side == Side::Unread && self.body.kept() > called {
            self.body.give_up();
            return true;
        }
        if side == Side::Unsent && self.replies_len() > called {
            self.replies.give_up();
            return true;
        }
        let Some((_, stream)) = largest else { return false };
        let text = "the server is short of memory and ended the call that held the most";
        self.fail(stream, &Status::resource_exhausted(text));
        true
    }

    fn drop_spare(&mut self) {}

    fn discard_output(&mut self) {
        self.discard_replies();
        let states = self.slots.iter_mut().map(|slot| &mut slot.state);
        self.discarded.extend(states.filter_map(|state| match state {
            SlotState::Answered(reply) => Some(std::mem::take(&mut reply.message)),
            _ => None,
        }));
    }

    fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.discarded)
    }

    /// Whoever makes the calls looks at the time in which requests come.
    fn note_reading(&mut self, _: bool, _: Duration) {}

    fn set_memory_pressure(&mut self, _: bool) {}

    fn lease(&mut self, _: u32) {}

    /// Whoever makes the calls announces the end in their own protocol.
    fn go_away(&mut self, _: GoAwayCode, _: Duration, _: &str) {}

    fn transmit(&mut self, _: usize, _: &mut dyn FnMut(Outgoing<'_>)) {}

    fn handle_timeout(&mut self, _: Duration) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The calls of one connection, all made by its one task. They are cancelled when this is dropped.
pub(super) struct DirectCalls {
    connection: Rc<ServerConnection<DirectMachine>>,
    /// Whoever counts the request that makes the next call, until that has begun.
    pub(super) counts: Cell<Option<Box<dyn FnOnce()>>>,
}

impl DirectCalls {
    pub(super) fn open(core: Rc<ServerCore>, connection: &Connection) -> Self {
        let machine =
            DirectMachine { peer: Some(connection.downgrade()), ..DirectMachine::default() };
        let connection = ServerConnection::open(core, connection, machine);
        Self { connection, counts: Cell::default() }
    }

    /// Calls of requests that come from `site`, whose connection counts what it keeps for them by itself.
    pub(super) fn of_site(core: Rc<ServerCore>, site: Rc<Site>) -> Self {
        let connection = ServerConnection::open_part(core, site, DirectMachine::default());
        Self { connection, counts: Cell::default() }
    }

    /// Runs what carries the calls, and counts what is kept for them after each turn of it.
    pub(super) async fn carry<T>(&self, carrier: impl Future<Output = T>) -> T {
        let mut carrier = pin!(carrier);
        poll_fn(|cx| {
            let polled = carrier.as_mut().poll(cx);
            self.connection.begin_turn(cx.waker());
            self.connection.settle();
            self.connection.end_turn();
            polled
        })
        .await
    }

    /// Counts what is kept of the body of a request, and of its reply, for this connection.
    pub(super) fn count(&self, request: &Request) {
        let mut machine = self.connection.machine();
        machine.body = request.body().account();
        machine.replies = request.body().replies().clone();
    }

    /// Whether the connection is to be closed: the core has given it up, or it has reached its age.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_ended() || self.connection.is_retired()
    }

    /// Where they come from.
    pub(super) fn site(&self) -> &Rc<Site> {
        self.connection.site()
    }

    /// The connection that makes the calls.
    pub(super) fn connection(&self) -> &Rc<ServerConnection<DirectMachine>> {
        &self.connection
    }
}

impl Drop for DirectCalls {
    fn drop(&mut self) {
        self.connection.close();
    }
}

/// The message for calls of a connection that the core has given up.
pub(super) const ENDED: &str = "the server is short of memory and has ended the connection";

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> DirectRequest {
        let head = RequestHead { method: 1, ..RequestHead::default() };
        DirectRequest {
            head,
            meta: Vec::new(),
            message: Bytes::from_static(b"hi"),
            translation: None,
        }
    }

    fn next(machine: &mut DirectMachine) -> Option<(StreamId, bool)> {
        match machine.receive(&mut &[][..], Duration::ZERO) {
            Ok(Some(ServerEvent::Request { stream, .. })) => Some((stream, true)),
            Ok(Some(ServerEvent::Cancelled { stream, .. })) => Some((stream, false)),
            Ok(None) => None,
            Ok(Some(other)) => panic!("{other:?}"),
        }
    }

    fn answer(machine: &mut DirectMachine, stream: StreamId) -> Option<u8> {
        let message = Some(Body::Copy(b"you"));
        machine.respond(stream, Reply { status: 0, meta: &[], message })
    }

    #[test]
    fn a_call_is_told_once_and_its_slot_is_used_again_under_another_id() {
        let mut machine = DirectMachine::default();
        let first = machine.begin(request());
        assert_eq!((next(&mut machine), next(&mut machine)), (Some((first, true)), None));
        assert_eq!(machine.take_reply(first), None);
        assert_eq!((answer(&mut machine, first), answer(&mut machine, first)), (Some(0), None));
        assert_eq!(machine.take_reply(first).expect("a reply").message, "you");
        assert_eq!(machine.in_flight(), 0);
        let second = machine.begin(request());
        assert_eq!(second.slot(), first.slot());
        assert!(second != first && answer(&mut machine, first).is_none());
        assert_eq!(machine.in_flight(), 1);
    }

    #[test]
    fn a_call_that_is_given_up_is_cancelled_if_it_had_begun() {
        let mut machine = DirectMachine::default();
        let unbegun = machine.begin(request());
        machine.give_up(unbegun);
        assert_eq!(next(&mut machine), None);
        let begun = machine.begin(request());
        assert_eq!(next(&mut machine), Some((begun, true)));
        machine.give_up(begun);
        machine.give_up(begun);
        assert_eq!((next(&mut machine), next(&mut machine)), (Some((begun, false)), None));
        assert_eq!(answer(&mut machine, begun), None, "its handler answers into the void");
        let answered = machine.begin(request());
        assert_eq!(
            (next(&mut machine), answer(&mut machine, answered)),
            (Some((answered, true)), Some(0))
        );
        machine.give_up(answered);
        assert_eq!(machine.take_discarded(), [Bytes::from_static(b"you")]);
        assert_eq!((next(&mut machine), machine.in_flight()), (None, 0));
    }
}
