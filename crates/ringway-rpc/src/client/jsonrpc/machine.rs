//! The machine as connections use it.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{Body, ClientEvent, Gone, Outgoing, StreamId};

use super::state::JsonClient;
use super::violation::JsonServerViolation;
use crate::client::machine::{ClientMachine, ReceivingMachine};
use crate::limits;

impl ClientMachine for JsonClient {
    fn capacity(&self) -> usize {
        self.room()
    }

    fn lease_cuts(&self) -> u32 {
        0
    }

    /// What was not executed is said of each call.
    fn was_accepted(&self, _: StreamId, _: u32) -> bool {
        true
    }

    fn has_room(&self, _: StreamId) -> bool {
        false
    }

    fn has_events(&self) -> bool {
        !self.happened.is_empty()
    }

    fn has_output(&self) -> bool {
        !self.unsent().is_empty()
    }

    fn poll_timeout(&self) -> Option<Duration> {
        Some(self.next_deadline())
    }

    /// Requests are whole.
    fn send(&mut self, _: StreamId, _: Body<'_>, _: bool) -> Result<bool, Gone> {
        Err(Gone)
    }

    fn finish(&mut self, _: StreamId) {}

    fn cancel(&mut self, stream: StreamId, _: u8, _: &str) {
        self.give_up(stream);
    }

    fn taken(&mut self, stream: StreamId, messages: usize) {
        self.read(stream, messages);
    }

    fn take_discarded(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    fn discard_output(&mut self) {
        (self.out, self.sent) = (Vec::new(), 0);
    }

    #[inline]
    fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        let unsent = self.unsent();
        let len = unsent.len().min(budget);
        if len > 0 {
            out(Outgoing::Copy(&unsent[..len]));
        }
        self.sent += len;
        if self.sent == self.out.len() {
            self.out.clear();
            self.out.shrink_to(limits::CLIENT_SCRATCH_BYTES_KEPT);
            self.sent = 0;
        } else if self.sent >= limits::JSONRPC_SENT_KEPT && self.sent >= self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }
}

impl ReceivingMachine for JsonClient {
    type Violation = JsonServerViolation;

    #[inline]
    fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, JsonServerViolation> {
        self.next_event(input, now)
    }

    #[inline]
    fn receive_message<'i>(&mut self, _: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        None
    }
}
