//! Sending content: at once, or queued until a stream has its turn and credit (RFC 9113, sections
//! 5.2 and 6.9).

use bytes::Bytes;

use super::connection::Connection;
use super::frames::{FrameHeader, HEADER_LEN, flag, kind};
use super::put::{put_headers, put_reset, put_short_headers};
use super::role::Role;
use super::stream::QueueEnd;
use super::{Encoder, ErrorCode, Event, Line, StreamHandle};
use crate::limits::{
    HTTP2_DATA_MAX, HTTP2_QUEUED_MARK, HTTP2_SMALL_MAX, HTTP2_SMALL_TURN, HTTP2_WRITTEN_MARK,
    UNSENT_MARK,
};
use crate::native::Credit;
use crate::native::{Body, Gone, Outgoing};
use crate::rates::moved;
use crate::stamp::{AT_NEXT_LOOK, Stamp};

impl<R: Role> Connection<R> {
    /// Sends a part of a stream's content: `prefix`, then `body`. `end` marks the last part,
    /// without trailers. A large shared body is not copied.
    ///
    /// Content beyond the peer's credit is queued without limit: `false` asks the caller to
    /// [wait](Self::has_room) before the next part.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the stream has ended, or was ended by an earlier call.
    pub fn send(
        &mut self,
        stream: StreamHandle,
        prefix: &[u8],
        body: Body<'_>,
        end: bool,
    ) -> Result<bool, Gone> {
        self.check_sending(stream)?;
        match self.is_direct(stream, prefix.len() + body.len()) {
            true => {
                self.write_data(stream, prefix, &body, end);
                self.note_local_end(stream, end);
                Ok(true)
            }
            false => Ok(self.queue(stream, prefix, body, end)),
        }
    }

    /// Ends a stream's content, with or without `trailers`.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] as [`send`](Self::send) does.
    pub fn finish(&mut self, stream: StreamHandle, trailers: &[Line<'_>]) -> Result<(), Gone> {
        self.check_sending(stream)?;
        let s = self.streams.at(stream.slot);
        if s.queued() == 0 {
            match trailers {
                [] => self.write_data(stream, &[], &Body::Copy(&[]), true),
                _ => self.write_headers(stream, trailers, true),
            }
            self.note_local_end(stream, true);
            return Ok(());
        }
        let before = s.held();
        s.ending = match trailers {
            [] => QueueEnd::Data,
            _ => {
                let mut block = Vec::new();
                trailers.iter().for_each(|line| Encoder::put_apart(line, &mut block));
                QueueEnd::Trailers(block)
            }
        };
        self.queued += s.held() - before;
        Ok(())
    }

    /// Whether the stream's writer may send now. It may not while more than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) bytes of the stream, or many bytes of all
    /// streams, are unsent; [`Event::Writable`] tells when it may again.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamHandle) -> bool {
        self.streams.peek(stream).is_none_or(|s| !s.wants_writable)
    }

    /// The credit of a stream alone; `None` if the stream is over.
    #[must_use]
    pub fn credit(&self, stream: StreamHandle) -> Option<Credit> {
        let s = self.streams.peek(stream)?;
        Some(Credit { to_send: at_most_u32(s.credit), to_receive: s.window.granted() })
    }

    /// The credit that all streams of the connection share.
    #[must_use]
    pub fn shared_credit(&self) -> Credit {
        Credit { to_send: at_most_u32(self.credit), to_receive: self.window_left }
    }

    /// Bytes of a stream that wait for credit or for their turn to be sent.
    #[must_use]
    pub fn unsent(&self, stream: StreamHandle) -> usize {
        self.streams.peek(stream).map_or(0, |s| s.queued())
    }

    #[inline]
    pub(super) fn check_sending(&mut self, stream: StreamHandle) -> Result<(), Gone> {
        let can_send = self.streams.get(stream).is_some_and(|s| s.can_send());
        if can_send && self.failed.is_none() { Ok(()) } else { Err(Gone) }
    }

    /// Whether content is written at once: there is credit, nothing of the stream is queued, and
    /// not too many messages have passed the queued streams.
    #[inline]
    pub(super) fn is_direct(&mut self, stream: StreamHandle, len: usize) -> bool {
        let s = self.streams.at(stream.slot);
        let credit = s.credit.min(self.credit);
        let is_next = self.line.is_empty() || self.streak < HTTP2_SMALL_TURN;
        s.queued() == 0
            && (len == 0
                || len as i64 <= credit
                    && len <= self.peer.max_frame.min(HTTP2_DATA_MAX) as usize
                    && self.outbox.backlog() <= HTTP2_WRITTEN_MARK
                    && is_next)
    }

    /// Writes content, for which there must be credit.
    #[inline]
    pub(super) fn write_data(
        &mut self,
        stream: StreamHandle,
        prefix: &[u8],
        body: &Body<'_>,
        end: bool,
    ) {
        let len = prefix.len() + body.len();
        let flags = if end { flag::END_STREAM } else { 0 };
        let len_max = self.peer.max_frame.min(HTTP2_DATA_MAX);
        let header = FrameHeader { len: len as u32, kind: kind::DATA, flags, stream: stream.id };
        let outbox = &mut self.outbox;
        match body {
            Body::Shared(bytes) if bytes.len() > HTTP2_SMALL_MAX => {
                outbox.written.extend_from_slice(&header.encode());
                outbox.written.extend_from_slice(prefix);
                outbox.put_shared(bytes.clone());
            }
            _ => outbox.put_data(header, prefix, body.as_ref(), len_max),
        }
        self.streams.at(stream.slot).credit -= len as i64;
        self.credit -= len as i64;
        self.budgets.note_progress();
        self.streak += u32::from(!self.line.is_empty());
    }

    #[inline]
    pub(super) fn write_headers(&mut self, stream: StreamHandle, lines: &[Line<'_>], end: bool) {
        let (encoder, len_max) = (&mut self.encoder, self.peer.max_frame as usize);
        if let Some(block) = encoder.short_block(lines) {
            return put_short_headers(stream.id, end, &block, &mut self.outbox.written);
        }
        put_headers(stream.id, end, len_max, &mut self.outbox.written, |out| {
            encoder.begin(out);
            lines.iter().for_each(|line| encoder.put(line, out));
        });
    }

    /// Records the end of our side of a stream, if `end` is set. A server that answers before the
    /// request has ended stops the rest of it with RST_STREAM (section 8.1).
    #[inline]
    pub(super) fn note_local_end(&mut self, stream: StreamHandle, end: bool) {
        if !end {
            return;
        }
        let s = self.streams.at(stream.slot);
        s.local_ended = true;
        if s.remote_ended {
            self.close(stream);
        } else if R::IS_SERVER {
            put_reset(stream.id, ErrorCode::NO_ERROR, &mut self.outbox.written);
            self.growth.note_ended(&s.window);
            self.streams.reset(stream);
            self.budgets.note_finished();
        }
    }

    /// Queues content, and returns whether the writer may go on.
    fn queue(&mut self, stream: StreamHandle, prefix: &[u8], body: Body<'_>, end: bool) -> bool {
        let s = self.streams.at(stream.slot);
        let before = s.held();
        if before == 0 {
            // Nothing may have come for long, so that the time is not known.
            (s.touched, self.stall_at) = (AT_NEXT_LOOK, Stamp::of(self.now));
        }
        s.push_small(prefix);
        match body {
            Body::Shared(bytes) if bytes.len() > HTTP2_SMALL_MAX => s.push_shared(bytes),
            body => s.push_small(body.as_ref()),
        }
        if end {
            s.ending = QueueEnd::Data;
        }
        self.queued += s.held() - before;
        s.wants_writable |= s.queued() > UNSENT_MARK || self.queued > HTTP2_QUEUED_MARK;
        let has_room = !s.wants_writable;
        self.schedule(stream.slot);
        has_room
    }

    /// Queues a stream for sending if it has data and credit.
    #[inline]
    pub(super) fn schedule(&mut self, slot: u32) {
        let s = self.streams.at(slot);
        if s.queued() > 0 && s.credit > 0 && !s.is_in_line {
            s.is_in_line = true;
            self.line.push_back(slot);
        }
    }

    /// Drops the queue of a stream.
    pub(super) fn forget_queue(&mut self, stream: StreamHandle) {
        self.queued -= self.streams.at(stream.slot).held();
        self.streams.clear_queue(stream.slot);
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one frame. DATA is
    /// cut into frames here, so data not handed out yet can still be overtaken.
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        let mut total = 0;
        if budget > 0 {
            self.keepalive.note_room();
        }
        while total < budget {
            if self.outbox.backlog() > 0 {
                total += self.outbox.emit(budget - total, out);
            } else if self.credit > 0
                && let Some(slot) = self.line.pop_front()
            {
                total += self.serve(slot, out);
            } else {
                break;
            }
        }
        self.keepalive.note_held_up(self.has_output());
    }

    /// Sends one DATA frame of a queued stream.
    fn serve(&mut self, slot: u32, out: &mut dyn FnMut(Outgoing<'_>)) -> usize {
        let frame_max = i64::from(self.peer.max_frame.min(HTTP2_DATA_MAX));
        let s = self.streams.at(slot);
        s.is_in_line = false;
        self.streak = 0;
        let len = (s.queued() as i64).min(s.credit).min(self.credit).min(frame_max);
        if len <= 0 || s.is_gone {
            return 0;
        }
        let len = len as usize;
        let before = s.held();
        let is_last = len == s.queued();
        let end = is_last && s.ending == QueueEnd::Data;
        let flags = if end { flag::END_STREAM } else { 0 };
        let header = FrameHeader { len: len as u32, kind: kind::DATA, flags, stream: s.id };
        out(Outgoing::Copy(&header.encode()));
        let mut left = len;
        while left > 0
            && let Some(part) = s.take(left)
        {
            left -= match &part {
                Outgoing::Copy(bytes) => bytes.len(),
                Outgoing::Shared(bytes) => bytes.len(),
            };
            out(part);
        }
        s.compact();
        s.credit -= len as i64;
        s.touched = moved(s.touched, len, self.now);
        let stream = StreamHandle { id: s.id, slot };
        self.credit -= len as i64;
        self.queued -= before - s.held();
        self.budgets.note_progress();
        if is_last {
            self.end_queue(stream);
        }
        self.note_writable(stream);
        self.schedule(slot);
        HEADER_LEN + len
    }

    /// Sends the end of a stream whose queue is empty.
    fn end_queue(&mut self, stream: StreamHandle) {
        let ending = std::mem::take(&mut self.streams.at(stream.slot).ending);
        match ending {
            QueueEnd::Open => return,
            QueueEnd::Data => {}
            QueueEnd::Trailers(block) => {
                let (encoder, len_max) = (&mut self.encoder, self.peer.max_frame as usize);
                put_headers(stream.id, true, len_max, &mut self.outbox.written, |out| {
                    encoder.begin(out);
                    out.extend_from_slice(&block);
                });
            }
        }
        self.note_local_end(stream, true);
    }

    fn note_writable(&mut self, stream: StreamHandle) {
        if let Some(s) = self.streams.get(stream)
            && s.wants_writable
            && s.queued() <= UNSENT_MARK / 2
        {
            s.wants_writable = false;
            self.pending.push_back(Event::Writable { stream });
        }
    }

    /// Takes the bodies that were discarded instead of sent, for the caller to [drop](Body). Call
    /// it after each call that ends streams, since nothing else remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.streams.discarded)
    }

    /// Discards all unsent output because the connection is lost;
    /// [`take_discarded`](Self::take_discarded) returns the bodies.
    pub fn discard_output(&mut self) {
        self.streams.drop_contents();
        self.line.clear();
        self.queued = 0;
        self.outbox.drop_written(&mut self.streams.discarded);
    }

    /// Whether [`transmit`](Self::transmit) has bytes to hand out.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.outbox.backlog() > 0 || self.credit > 0 && !self.line.is_empty()
    }

    /// Bytes of written frames not handed out yet, without the data queued by streams. If they
    /// exceed some hundred KiB, wait for the socket before the next `receive`.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.outbox.backlog()
    }

    /// Reports streams whose peers have accepted no data for too long. They are reset when their callers are told:
    /// the slot of a client's stream is free from then on, and another stream must not have it earlier.
    pub(super) fn look_for_stalls(&mut self) {
        let (now, timeout) = (self.now, self.config.stall_timeout);
        self.stall_at = Stamp::NEVER;
        for (stream, s) in self.streams.open_streams_mut().filter(|(_, s)| s.queued() > 0) {
            if s.touched == AT_NEXT_LOOK {
                s.touched = now;
            }
            let until = s.touched.saturating_add(timeout);
            if until > now {
                self.stall_at = self.stall_at.min(Stamp::of(until));
            } else {
                s.touched = now; // it is reported once
                self.pending.push_back(Event::Failed { stream, code: ErrorCode::CANCEL });
            }
        }
    }

    /// Resets a stream that has stalled and is still open.
    #[cold]
    pub(super) fn end_stalled(&mut self, stream: StreamHandle, code: ErrorCode) {
        if self.streams.get(stream).is_some() {
            self.unserved.stalled += 1;
            self.give_up(stream, code);
        }
    }
}

/// Credit as a size: a window that SETTINGS has made negative has none.
fn at_most_u32(credit: i64) -> u32 {
    u32::try_from(credit.max(0)).unwrap_or(u32::MAX)
}
