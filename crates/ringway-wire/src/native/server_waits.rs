//! Calls of which something is missing: requests that are not whole, replies that have not left
//! (sections 6 and 7). They take up a slot and memory, so they have a time.

use std::time::Duration;

use bytes::Bytes;

use super::receive_side::Unready;
use super::server::Server;
use super::server_answer::{DEADLINE_EXCEEDED, UNIMPLEMENTED};
use super::server_event::ServerEvent;
use super::slots::{Found, NO_STREAM, Phase};
use super::{Piece, RequestHead, StreamId, Violation};

impl Server {
    /// Takes a request back that its method wants whole: with one message, and the end behind it. It
    /// comes again as a [`Request`](ServerEvent::Request) when its end is there, with the message if
    /// there was one. Until then it is the machine's to answer, in time or when a second message comes,
    /// and what it keeps counts for [`buffered_len`](Self::buffered_len).
    ///
    /// Nothing happens if the call has ended, or `end` of its request was told.
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
        // It is counted by what it takes up from now on.
        self.connection.streams.hand_over(slot.stream);
        let request = Unready { head, meta, message, is_single: true };
        self.keep_request(index, slot.stream, request);
    }

    /// Keeps a request until nothing of it is missing.
    pub(super) fn keep_request(&mut self, index: usize, place: u32, request: Unready) {
        self.connection.streams.await_rest(place, request);
        self.watch(index);
    }

    /// The client has ended its request, or a message of it is whole: what that means for a request
    /// that is kept.
    pub(super) fn on_rest<'i>(
        &mut self,
        index: usize,
        mut request: Unready,
        message: Option<Piece<'i>>,
        end: bool,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        let (stream, place) =
            (self.connection.slots.id(index), self.connection.slots.get(index).stream);
        if message.is_some() && request.message.is_some() {
            let text = "the method takes one message, and more were sent";
            return self.end_unknown(index, UNIMPLEMENTED, text).map(|()| None);
        }
        if request.is_single && !end {
            request.message = message.map(|message| Bytes::copy_from_slice(&message));
            self.connection.streams.hand_over(place);
            self.connection.streams.await_rest(place, request);
            return Ok(None);
        }
        if end {
            // Messages of a call that its request has ended are not told to be taken.
            self.connection.streams.hand_over(place);
        }
        let message = message.or_else(|| request.message.map(Piece::Owned));
        let (mut head, meta) = (request.head, Piece::Owned(request.meta));
        let until = self.connection.streams.get(place).until;
        if until != Duration::MAX {
            let left = until.saturating_sub(self.connection.now).as_micros();
            head.timeout_us = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        }
        Ok(Some(ServerEvent::Request { stream, head, meta, message, end }))
    }

    /// Looks after a call of which something is missing from now on.
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

    /// When a call is ended of which something is missing; `None` where nothing is.
    fn limit(&self, index: usize) -> Option<Duration> {
        let slot = self.connection.slots.get(index);
        if slot.stream == NO_STREAM {
            return None;
        }
        let stream = self.connection.streams.get(slot.stream);
        let is_waiting = slot.phase == Phase::Closing || stream.receive.request.is_some();
        let stalled = stream.touched.saturating_add(self.connection.config.stall_timeout);
        is_waiting.then(|| stream.until.min(stalled))
    }

    /// Ends the calls whose time is over.
    pub(super) fn end_overdue(&mut self, now: Duration) {
        while let Some(id) = self.waits.pop_due(now) {
            let Found::Live(index) = self.connection.slots.find(id) else {
                continue;
            };
            match self.limit(index) {
                None => {}
                Some(limit) if limit > now => self.waits.arm(limit, id),
                Some(_) => {
                    let text = match self.connection.slots.get(index).phase {
                        Phase::Closing => "the reply was not taken in time",
                        _ => {
                            self.overdue += 1;
                            "the request did not come whole in time"
                        }
                    };
                    let meta = self.own_meta(|meta| meta.status_message(text));
                    self.end_at_once(index, DEADLINE_EXCEEDED, &meta);
                }
            }
        }
    }
}
