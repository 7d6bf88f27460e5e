//! Handing out bytes for the socket, fragmented on demand (section 5).

use super::StreamId;
use super::native_connection::{NativeConnection, Pending};
use super::outbox::{Outgoing, Turn};
use super::send_side::Lane;
use super::slots::NO_STREAM;
use crate::limits::{
    NATIVE_FRAGMENT_MIN, NATIVE_PAYLOAD_DEFAULT, NATIVE_QUEUED_MARK, NATIVE_WRITTEN_MARK,
    UNSENT_MARK,
};
use crate::rates::moved;

/// The result of a stream's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// Nothing was sent, because the stream was dropped.
    Gone,
    Some,
    /// Its REQUEST was sent.
    Opened,
    /// The end of its RESPONSE was sent.
    Final,
}

impl NativeConnection {
    /// Hands out about `budget` bytes, exceeded by less than one small message.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        budget: usize,
        out: &mut dyn FnMut(Outgoing<'_>),
        mut done: impl FnMut(&mut Self, StreamId, Served),
    ) {
        let mut left = budget;
        if left > 0 {
            self.keepalive.note_room();
        }
        while left > 0 {
            let used = match self.outbox.turn(&self.streams) {
                Turn::Nobody => break,
                Turn::Written(len) => self.outbox.emit(len.min(left), out),
                Turn::Body => self.outbox.emit_body(left, out),
                Turn::Stream(index) => {
                    let (used, served) = self.serve(index, left, out);
                    if served != Served::Gone {
                        self.after_turn(index);
                        let stream = self.streams.get(index).id;
                        done(self, stream, served);
                    }
                    used
                }
            };
            left = left.saturating_sub(used);
        }
        self.keepalive.note_held_up(!self.outbox.is_empty());
        self.outbox.compact();
        if !self.backpressured.is_empty() && self.outbox.backlog() <= NATIVE_WRITTEN_MARK / 2 {
            self.end_backpressure();
        }
    }

    fn serve(
        &mut self,
        index: u32,
        budget: usize,
        out: &mut dyn FnMut(Outgoing<'_>),
    ) -> (usize, Served) {
        if !self.streams.dequeue(index) {
            return (0, Served::Gone);
        }
        let (used, served) = match self.streams.at(index).send.ready() {
            None => (0, Served::Some),
            Some(Lane::Small) => self.serve_small(index, budget, out),
            Some(Lane::Large) => self.serve_fragment(index, budget, out),
        };
        let stream = self.streams.at(index);
        stream.touched = moved(stream.touched, used, self.now);
        (used, served)
    }

    fn serve_small(
        &mut self,
        index: u32,
        budget: usize,
        out: &mut dyn FnMut(Outgoing<'_>),
    ) -> (usize, Served) {
        let send = &mut self.streams.at(index).send;
        let run = send.take_frames(budget);
        out(Outgoing::Copy(send.frames(&run)));
        send.recycle();
        self.outbox.count_small(run.count);
        (run.range.len(), if run.is_final { Served::Final } else { Served::Some })
    }

    fn serve_fragment(
        &mut self,
        index: u32,
        budget: usize,
        out: &mut dyn FnMut(Outgoing<'_>),
    ) -> (usize, Served) {
        // Only a stream that makes no other wait may send long fragments.
        let max_payload = self.peer.max_payload as usize;
        let is_alone = self.outbox.is_alone();
        let max =
            if is_alone { max_payload } else { max_payload.min(NATIVE_PAYLOAD_DEFAULT as usize) };
        let mut head = self.outbox.take_scratch();
        let (credit, with_crc) = (self.peer.initial_credit, self.outbox.with_crc);
        let stream = self.streams.at(index);
        if stream.send.opens_next() {
            // The peer's initial credit for a new stream applies from its REQUEST on.
            stream.send.credit = credit;
        }
        let len_max = budget.max(NATIVE_FRAGMENT_MIN).min(max);
        let fragment = stream.send.cut(stream.id, len_max, with_crc, &mut head);
        let fragment = fragment.expect("a long message was ready");
        let used = head.len() + fragment.body.len();
        out(Outgoing::Copy(&head));
        if !fragment.body.is_empty() {
            out(Outgoing::Shared(fragment.body));
        }
        if let Some(crc) = fragment.crc {
            out(Outgoing::Copy(&crc.to_le_bytes()));
        }
        self.outbox.give_back(head);
        let served = match (fragment.opens, fragment.is_final) {
            (true, _) => Served::Opened,
            (_, true) => Served::Final,
            _ => Served::Some,
        };
        (used, served)
    }

    /// Queues a stream again if it can send more, and reports `Writable` when due.
    fn after_turn(&mut self, index: u32) {
        self.streams.count_queued(index);
        self.schedule(index);
        self.note_writable(index);
    }

    fn note_writable(&mut self, index: u32) {
        // A stream without queued messages is not held up by others.
        let is_much = self.streams.queued() > NATIVE_QUEUED_MARK;
        let waiting_max = if is_much { 0 } else { UNSENT_MARK / 2 };
        let stream = self.streams.at(index);
        if stream.send.wants_writable && stream.send.waiting() <= waiting_max {
            stream.send.wants_writable = false;
            let id = stream.id;
            self.tell(Pending::Writable(id));
        }
    }

    /// Lets the writers that waited for the written output continue once it has left.
    #[cold]
    fn end_backpressure(&mut self) {
        let mut backpressured = std::mem::take(&mut self.backpressured);
        for id in backpressured.drain(..) {
            if let Some(index) = self.slots.find_open(id)
                && let stream_index = self.slots.get(index).stream
                && stream_index != NO_STREAM
            {
                self.note_writable(stream_index);
            }
        }
        self.backpressured = backpressured;
    }
}
