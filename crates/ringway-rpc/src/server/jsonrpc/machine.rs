//! The machine of a connection that speaks JSON-RPC.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{
    Body, GoAwayCode, Gone, Outgoing, PlainRequest, Reply, RequestHead, ServerEvent, Side,
    StreamId, Unserved,
};

use super::deadlines::JsonDrain;
use super::state::JsonMachine;
use super::told::Told;
use super::violation::JsonViolation;
use crate::limits;
use crate::server::machine::{Machine, Translation};

impl Machine for JsonMachine {
    type Violation = JsonViolation;

    const NAME: &'static str = "JSON-RPC";

    const NUMBERS_ARE_INDICES: bool = true;
    const SPEAKS_JSON: bool = true;
    const TRANSLATES: bool = true;

    /// Every message is JSON, and becomes what its method takes.
    #[inline]
    fn takes(_: &RequestHead, _: u8) -> bool {
        true
    }

    fn is_leave(_: &JsonViolation) -> bool {
        false
    }

    fn is_drained(&self) -> bool {
        self.drain.is_some() && self.in_flight() == 0
    }

    #[inline(always)]
    fn receive_plain<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Option<PlainRequest<'i>> {
        self.now = now;
        if !self.is_quiet() {
            return None;
        }
        self.plain(input)
    }

    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, JsonViolation> {
        self.now = now;
        self.next_event(input)
    }

    fn end_input(&mut self) {
        self.take_rest();
    }

    #[inline]
    fn receive_message<'i>(&mut self, _: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        None
    }

    fn take_translation(&mut self, stream: StreamId) -> Option<Translation> {
        let method = self.calls.get(stream)?.method;
        if !self.methods.get(method).translates() {
            return None;
        }
        let methods = Rc::clone(&self.methods);
        Some(Translation::new(move |given| methods.get(method).translate(&given)))
    }

    #[inline]
    fn unbegun(&self) -> usize {
        self.begun.len()
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.calls.len() + self.begun.len()
    }

    #[inline]
    fn has_events(&self) -> bool {
        self.has_events_now()
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.output.len() > 0 || !self.asked.is_empty()
    }

    #[inline]
    fn output_len(&self) -> usize {
        self.output.len() + self.batches.len()
    }

    #[inline]
    fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.lines.part_len() + self.carried.kept() + self.begun_len,
            Side::Unsent => self.output_len(),
        }
    }

    #[inline]
    fn spare_len(&self) -> usize {
        self.output.spare_len()
    }

    #[inline]
    fn unserved(&self) -> Unserved {
        self.unserved
    }

    fn failure(&self, stream: StreamId) -> Option<u8> {
        self.told.iter().find_map(|told| match *told {
            Told::Failed(of, code) if of == stream => Some(code),
            _ => None,
        })
    }

    #[inline]
    fn has_room(&self, _: StreamId) -> bool {
        let has_room = self.output.len() < limits::JSONRPC_SUBSCRIPTION_ROOM;
        if !has_room {
            self.is_awaited.set(true);
        }
        has_room
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.next_deadline()
    }

    #[inline]
    fn respond(&mut self, stream: StreamId, reply: Reply<'_>) -> Option<u8> {
        self.answer_call(stream, reply)
    }

    fn send(&mut self, stream: StreamId, _: &[u8], message: Body<'_>) -> Result<bool, Gone> {
        self.notify_subscriber(stream, message)
    }

    /// A subscription has no metadata.
    fn send_initial(&mut self, _: StreamId, _: &[u8]) -> Result<(), Gone> {
        Ok(())
    }

    /// Requests are whole.
    fn await_rest(&mut self, _: StreamId, _: RequestHead, _: &[u8], _: Option<&[u8]>) {}

    fn taken(&mut self, _: StreamId, _: usize) {}

    fn ignore(&mut self, _: StreamId) {}

    fn largest_len(&mut self, side: Side) -> usize {
        self.kept_len(side)
    }

    fn end_largest(&mut self, side: Side) -> bool {
        self.give_up_memory(side)
    }

    fn drop_spare(&mut self) {
        self.output.drop_spare();
    }

    fn discard_output(&mut self) {
        self.batches.clear();
        self.discarded.extend(self.output.discard());
    }

    #[inline]
    fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.discarded)
    }

    fn note_reading(&mut self, is_reading: bool, now: Duration) {
        match (is_reading, self.unread_since) {
            (false, None) => self.unread_since = Some(now),
            (true, Some(since)) => {
                self.unread_since = None;
                let pause = now.saturating_sub(since);
                self.part_at = self.part_at.map(|at| at.saturating_add(pause));
            }
            _ => {}
        }
    }

    fn set_memory_pressure(&mut self, _: bool) {}

    fn lease(&mut self, _: u32) {}

    /// The protocol has no word for it: late requests are refused, and the end of the connection says the rest.
    fn go_away(&mut self, code: GoAwayCode, drain: Duration, _: &str) {
        self.drain = Some(JsonDrain::new(code, drain));
    }

    #[inline]
    fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.confirm_asked();
        if self.output.len() == 0 {
            return;
        }
        self.output.transmit(budget, out);
        self.stall.moved(self.output.len() > 0, self.now, self.config.stall_timeout);
        self.tell_writable();
    }

    fn handle_timeout(&mut self, now: Duration) -> Result<(), JsonViolation> {
        self.now = now;
        self.do_what_is_due(now)
    }
}
