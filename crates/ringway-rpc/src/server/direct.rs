//! Calls that come from code on the core instead of frames: what HTTP is translated to.
//!
//! [`DirectMachine`] takes the place of a protocol's machine, so a call is admitted, limited, run, cancelled and
//! counted by the same code, whoever makes it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ringway_net::Connection;
use ringway_runtime::drop_each;
use ringway_wire::native::{
    Body, GoAwayCode, Gone, Outgoing, Piece, PlainRequest, Reply, RequestHead, ServerEvent, Side,
    StreamId, Unserved,
};

use super::connection::ServerConnection;
use super::core::ServerCore;
use super::machine::Machine;
use crate::call::status::Code;
use crate::connection::driver::MESSAGE;

/// The calls of one connection, by the slots of their streams.
#[derive(Debug, Default)]
pub(crate) struct DirectMachine {
    slots: Vec<DirectSlot>,
    free: Vec<u32>,
    begun: VecDeque<(StreamId, DirectRequest)>,
    cancelled: VecDeque<StreamId>,
    /// Replies that nobody took.
    discarded: Vec<Bytes>,
}

#[derive(Debug)]
struct DirectSlot {
    /// The stream that uses it, or the next one that will.
    stream: StreamId,
    state: SlotState,
}

#[derive(Debug, PartialEq, Eq)]
enum SlotState {
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
}

/// How a call has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DirectReply {
    /// The number of a [`Code`].
    pub(super) status: u8,
    pub(super) meta: Vec<u8>,
    pub(super) message: Bytes,
}

impl DirectMachine {
    fn begin(&mut self, request: DirectRequest) -> StreamId {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len() as u32;
            let stream = StreamId::new(slot, StreamId::GENERATION_FIRST);
            self.slots.push(DirectSlot { stream, state: SlotState::Free });
            slot
        });
        let DirectSlot { stream, state } = &mut self.slots[slot as usize];
        *state = SlotState::Running;
        self.begun.push_back((*stream, request));
        *stream
    }

    fn slot(&mut self, stream: StreamId) -> Option<&mut DirectSlot> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        (slot.stream == stream && slot.state != SlotState::Free).then_some(slot)
    }

    /// Takes the reply out; its slot is free then.
    fn take_reply(&mut self, stream: StreamId) -> Option<DirectReply> {
        let slot = self.slot(stream)?;
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(reply) => {
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
    fn give_up(&mut self, stream: StreamId) {
        let Some(slot) = self.slot(stream) else { return };
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Answered(reply) => self.discarded.push(reply.message),
            _ => self.cancelled.push_back(stream),
        }
        self.release(stream);
    }

    fn release(&mut self, stream: StreamId) {
        self.slots[stream.slot() as usize].stream = stream.next();
        self.free.push(stream.slot());
    }
}

impl Machine for DirectMachine {
    type Violation = Infallible;

    const NUMBERS_ARE_INDICES: bool = true;

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
        // A call that was given up before it began never begins.
        while let Some((stream, request)) = self.begun.pop_front() {
            if self.slot(stream).is_none() {
                self.cancelled.retain(|cancelled| *cancelled != stream);
                continue;
            }
            let DirectRequest { head, meta, message } = request;
            let (meta, message) = (Piece::Owned(meta.into()), Some(Piece::Owned(message)));
            return Ok(Some(ServerEvent::Request { stream, head, meta, message, end: true }));
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

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn has_events(&self) -> bool {
        !(self.begun.is_empty() && self.cancelled.is_empty())
    }

    fn has_output(&self) -> bool {
        false
    }

    fn output_len(&self) -> usize {
        0
    }

    /// Replies are counted where they are written: at the socket.
    fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.begun.iter().map(|(_, request)| request.message.len()).sum(),
            Side::Unsent => 0,
        }
    }

    fn spare_len(&self) -> usize {
        0
    }

    fn unserved(&self) -> Unserved {
        Unserved::default()
    }

    fn failure(&self, _: StreamId) -> Option<u8> {
        None
    }

    fn has_room(&self, _: StreamId) -> bool {
        false
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
        slot.state = SlotState::Answered(DirectReply { status: reply.status, meta, message });
        Some(reply.status)
    }

    /// Only unary calls come here, which have no streams.
    fn send(&mut self, _: StreamId, _: &[u8], _: Body<'_>) -> Result<bool, Gone> {
        Err(Gone)
    }

    fn send_initial(&mut self, _: StreamId, _: &[u8]) -> Result<(), Gone> {
        Ok(())
    }

    fn await_rest(&mut self, _: StreamId, _: RequestHead, _: &[u8], _: Option<&[u8]>) {}

    fn taken(&mut self, _: StreamId, _: usize) {}

    fn ignore(&mut self, _: StreamId) {}

    fn largest_len(&mut self, _: Side) -> usize {
        0
    }

    fn end_largest(&mut self, _: Side) -> bool {
        false
    }

    fn drop_spare(&mut self) {}

    fn discard_output(&mut self) {
        let states = self.slots.iter_mut().map(|slot| &mut slot.state);
        self.discarded.extend(states.filter_map(|state| match state {
            SlotState::Answered(reply) => Some(std::mem::take(&mut reply.message)),
            _ => None,
        }));
    }

    fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.discarded)
    }

    fn set_tight(&mut self, _: bool) {}

    fn lease(&mut self, _: u32) {}

    /// Whoever makes the calls announces the end in their own protocol.
    fn go_away(&mut self, _: GoAwayCode, _: Duration, _: &str) {}

    fn transmit(&mut self, _: usize, _: &mut dyn FnMut(Outgoing<'_>)) {}

    fn handle_timeout(&mut self, _: Duration) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The calls of one connection, all made by its one task. They are cancelled when this is dropped.
pub(super) struct DirectCalls(Rc<ServerConnection<DirectMachine>>);

impl DirectCalls {
    pub(super) fn open(core: Rc<ServerCore>, connection: &Connection) -> Self {
        Self(ServerConnection::open(core, connection, DirectMachine::default()))
    }

    /// Makes a call, which begins when the future is first polled and is cancelled with it.
    pub(super) fn call(&self, request: DirectRequest) -> DirectCall {
        let stream = self.0.machine().begin(request);
        DirectCall { connection: Rc::clone(&self.0), stream, is_done: false }
    }
}

impl Drop for DirectCalls {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A call under way.
pub(super) struct DirectCall {
    connection: Rc<ServerConnection<DirectMachine>>,
    stream: StreamId,
    is_done: bool,
}

impl Future for DirectCall {
    type Output = DirectReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DirectReply> {
        let connection = &self.connection;
        connection.begin_turn(cx.waker());
        connection.begin_deferred();
        take_events(connection);
        connection.settle();
        connection.end_turn();
        let reply = connection.machine().take_reply(self.stream);
        let ended = || DirectReply { status: Code::Unavailable.number(), ..DirectReply::default() };
        match reply.or_else(|| self.connection.is_ended().then(ended)) {
            Some(reply) => {
                self.is_done = true;
                Poll::Ready(reply)
            }
            None => Poll::Pending,
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

fn take_events(connection: &Rc<ServerConnection<DirectMachine>>) {
    if connection.has_events() {
        let Ok(()) = connection.take_in(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> DirectRequest {
        let head = RequestHead { method: 1, ..RequestHead::default() };
        DirectRequest { head, meta: Vec::new(), message: Bytes::from_static(b"hi") }
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
