//! Incomplete calls: requests that have not arrived completely, and replies that have not left
//! (sections 6 and 7). They take up a slot and memory, so they have a deadline.

use std::time::Duration;

use bytes::Bytes;

use super::receive_side::Unready;
use super::server::Server;
use super::server_answer::{DEADLINE_EXCEEDED, UNIMPLEMENTED};
use super::server_event::ServerEvent;
use super::slots::{Found, NO_STREAM, Phase};
use super::{Piece, RequestHead, StreamId, Violation};
use crate::stamp::AT_NEXT_LOOK;

impl Server {
    /// Takes back a request whose method needs it complete: one message, and the end after it. It
    /// is reported again as [`Request`](ServerEvent::Request) when its end has arrived, with the
    /// message if there was one. Until then the machine answers it if it is late or a second
    /// message arrives, and its bytes count in [`buffered_len`](Self::buffered_len).
    ///
    /// Does nothing if the call has ended, or if its end was already reported.
    pub fn await_rest(
        &mut self,
        stream: StreamId,
        head: RequestHead,
        meta: &[u8],
        message: Option<&[u8]>,
    ) {
        let Some(index) = self.connection.slots.find_open(stream) else {
            return;
        };
        let slot = self.connection.slots.get(index);
        if slot.stream == NO_STREAM || slot.remote_ended {
            return;
        }
        let meta = Bytes::copy_from_slice(meta);
        let message = message.map(Bytes::copy_from_slice);
        // From now on it is counted by the memory it takes up.
        self.connection.streams.hand_over(slot.stream);
        let request = Unready { head, meta, message, is_single: true };
        self.keep_request(index, slot.stream, request);
    }

    /// Holds a request back until it is complete.
    pub(super) fn keep_request(&mut self, index: usize, stream_index: u32, request: Unready) {
        self.connection.streams.await_rest(stream_index, request);
        self.watch(index);
    }

    /// Completes a request that is held back, when its end or the whole of its message has arrived.
    pub(super) fn on_rest<'i>(
        &mut self,
        index: usize,
        mut request: Unready,
        message: Option<Piece<'i>>,
        end: bool,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        let (stream, stream_index) =
            (self.connection.slots.id(index), self.connection.slots.get(index).stream);
        if message.is_some() && request.message.is_some() {
            let text = "the method takes one message, and more were sent";
            return self.end_unknown(index, UNIMPLEMENTED, text).map(|()| None);
        }
        if request.is_single && !end {
            request.message = message.map(|message| Bytes::copy_from_slice(&message));
            self.connection.streams.hand_over(stream_index);
            self.connection.streams.await_rest(stream_index, request);
            return Ok(None);
        }
        if end {
            // The reader of a complete request does not report messages as taken.
            self.connection.streams.hand_over(stream_index);
        }
        let message = message.or_else(|| request.message.map(Piece::Owned));
        let (mut head, meta) = (request.head, Piece::Owned(request.meta));
        let until = self.connection.streams.get(stream_index).until;
        if until != Duration::MAX {
            let left = until.saturating_sub(self.connection.now).as_micros();
            head.timeout_us = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        }
        Ok(Some(ServerEvent::Request { stream, head, meta, message, end }))
    }

    /// Sets a deadline for a call that is incomplete.
    pub(super) fn watch(&mut self, index: usize) {
        let Some(limit) = self.limit(index) else {
            return;
        };
        let connection = &self.connection;
        self.waits.arm(limit, connection.slots.id(index));
        self.waits.settle(connection.slots.live(), |id| {
            matches!(connection.slots.find(id), Found::Live(_))
        });
    }

    /// The deadline of an incomplete call; `None` if it is complete.
    fn limit(&self, index: usize) -> Option<Duration> {
        let connection = &self.connection;
        let slot = connection.slots.get(index);
        if slot.stream == NO_STREAM {
            return None;
        }
        let stream = connection.streams.get(slot.stream);
        let stalled = stream.touched.saturating_add(connection.config.stall_timeout);
        match slot.phase {
            Phase::Closing if stream.touched == AT_NEXT_LOOK => Some(connection.now),
            Phase::Closing => Some(stream.until.min(stalled)),
            _ if stream.receive.request.is_some() => {
                Some(stream.until.min(connection.reading.when(stalled, connection.now)))
            }
            _ => None,
        }
    }

    /// Begins the time to take a reply that was given since the time was last known.
    fn begin_taking(&mut self, index: usize) {
        let connection = &mut self.connection;
        let slot = *connection.slots.get(index);
        if slot.stream != NO_STREAM && connection.streams.get(slot.stream).touched == AT_NEXT_LOOK {
            connection.note_time(slot.stream, slot.timeout_us);
            connection.streams.at(slot.stream).touched = connection.now;
        }
    }

    /// Tells whether the caller reads what the client sends from now on. While it does not, because output waits or
    /// others come first, the client is not to blame for what does not arrive.
    pub fn note_reading(&mut self, is_reading: bool, now: Duration) {
        let pause = self.connection.reading.note(is_reading, now);
        self.connection.keepalive.put_off(pause, now);
    }

    /// Ends the calls whose deadline has passed.
    pub(super) fn end_overdue(&mut self, now: Duration) {
        while let Some(id) = self.waits.pop_due(now) {
            let Found::Live(index) = self.connection.slots.find(id) else {
                continue;
            };
            self.begin_taking(index);
            match self.limit(index) {
                None => {}
                Some(limit) if limit > now => self.waits.arm(limit, id),
                Some(_) => {
                    let text = match self.connection.slots.get(index).phase {
                        Phase::Closing => {
                            self.unserved.stalled += 1;
                            "the reply was not taken in time"
                        }
                        _ => {
                            self.unserved.overdue += 1;
                            "the request did not arrive completely in time"
                        }
                    };
                    let meta = self.own_meta(|meta| meta.status_message(text));
                    self.end_at_once(index, DEADLINE_EXCEEDED, &meta);
                }
            }
        }
    }
}
