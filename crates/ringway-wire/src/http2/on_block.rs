//! Received field blocks, and the messages that they start or end (RFC 9113, sections 6.2, 6.10 and
//! 8).

use super::closed::Past;
use super::connection::Connection;
use super::foreign::Foreign;
use super::frames::{FrameHeader, MAX_31, flag, headers_block};
use super::meaning::Key;
use super::open_block::OpenBlock;
use super::put::put_reset;
use super::role::Role;
use super::stream::ANY_LENGTH;
use super::{ErrorCode, Event, Fields, StreamHandle, Violation};
use crate::limits::{HTTP2_BLOCK_FRAMES_MAX, HTTP2_BLOCK_MAX};
use crate::native::Piece;
use crate::rates::moment;

impl<R: Role> Connection<R> {
    pub(super) fn on_headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        let block = headers_block(header, payload)?;
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.on_block(header.stream, block, end);
        }
        if block.is_empty() {
            self.budgets.bear_idle(self.now)?;
        }
        self.keepalive.note_block(true, self.now);
        let (stream, bytes) = (header.stream, block.to_vec());
        self.block = Some(Box::new(OpenBlock { stream, end, frames: 1, bytes }));
        Ok(None)
    }

    /// Handles a CONTINUATION, which was checked to continue the open block.
    pub(super) fn on_continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        let Some(mut block) = self.block.take() else {
            return Err(Violation::NothingToContinue);
        };
        block.frames += 1;
        if block.bytes.len() + payload.len() > HTTP2_BLOCK_MAX
            || block.frames > HTTP2_BLOCK_FRAMES_MAX
        {
            return Err(Violation::BlockTooLong);
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(None);
        }
        self.keepalive.note_block(false, self.now);
        self.on_block(block.stream, &block.bytes, block.end)
    }

    /// Handles a complete field block. It is decoded in any case, to keep the table in sync.
    #[inline]
    pub(super) fn on_block(
        &mut self,
        id: u32,
        block: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, Violation> {
        if block.len() > HTTP2_BLOCK_MAX {
            return Err(Violation::BlockTooLong);
        }
        let size_max = self.config.max_header_list as usize;
        let fields = self.fields.get_or_insert_with(|| Box::new(Fields::new(size_max)));
        self.decoder.decode(block, &self.vocabulary, fields)?;
        if R::IS_SERVER && id > self.last_peer {
            return self.on_request(id, block, end);
        }
        match self.streams.find(id) {
            Some(stream) if self.streams.at(stream.slot).remote_ended => {
                self.fault(stream, Violation::StreamClosed)
            }
            Some(stream) if self.streams.at(stream.slot).has_head => self.on_trailers(stream, end),
            Some(stream) => self.on_response(stream, end),
            None => self.on_stray_block(id),
        }
    }

    /// Handles a field block of a stream that is not open.
    fn on_stray_block(&mut self, id: u32) -> Result<Option<Event<'static>>, Violation> {
        if !R::IS_SERVER && self.is_idle(id) {
            return Err(Violation::IdleStream);
        }
        if id.is_multiple_of(2) {
            return Err(Violation::WrongParity);
        }
        match self.streams.closed.past(id) {
            Past::Reset => self.budgets.bear_idle(self.now).map(|()| None),
            Past::Ended => Err(Violation::StreamClosed),
            Past::Unknown if R::IS_SERVER => Err(Violation::StreamIdWentBack),
            Past::Unknown => Err(Violation::StreamClosed),
        }
    }

    /// Opens a new stream of the peer (section 5.1.1).
    #[inline]
    fn on_request(
        &mut self,
        id: u32,
        block: &[u8],
        end: bool,
    ) -> Result<Option<Event<'static>>, Violation> {
        if id.is_multiple_of(2) {
            return Err(Violation::WrongParity);
        }
        self.last_peer = id;
        self.budgets.note_progress();
        if self.streams.live() >= self.config.max_streams as usize || self.drain.refuses(id) {
            self.refuse(id, ErrorCode::REFUSED_STREAM, end)?;
            return self.budgets.bear_reset(self.now).map(|()| None);
        }
        if self.foreign != Foreign::Unwanted && !self.sort(block) {
            self.refuse(id, ErrorCode::REFUSED_STREAM, end)?;
            return self.budgets.bear_reset(self.now).map(|()| None);
        }
        let fields = self.fields();
        let is_whole = fields.head.has_pseudo_exactly(REQUEST) || self.is_connect();
        let fault = match fields.fault() {
            None if !is_whole && !fields.is_cut() => Some(Violation::BadPseudoField),
            fault => fault,
        };
        let length = fields.head.value(Key::CONTENT_LENGTH);
        let is_short = end && length.is_some_and(|length| length != 0);
        if let Some(fault) = fault.or(is_short.then_some(Violation::BadContentLength)) {
            self.refuse(id, fault.code(), end)?;
            return self.budgets.bear_reset(self.now).map(|()| None);
        }
        let credit = i64::from(self.peer.initial_window);
        let stream = self.streams.open(id, self.start.counted, credit);
        let s = self.streams.at(stream.slot);
        (s.has_head, s.remote_ended, s.came) = (true, end, moment(self.now));
        s.content_left = length.unwrap_or(ANY_LENGTH);
        Ok(Some(Event::Head { stream, data: Piece::EMPTY, end }))
    }

    /// Resets a stream that is not reported to the caller. `end` says that the peer has ended it.
    fn refuse(&mut self, id: u32, code: ErrorCode, end: bool) -> Result<(), Violation> {
        match code {
            ErrorCode::REFUSED_STREAM => self.unserved.refused += 1,
            _ => self.unserved.malformed += 1,
        }
        put_reset(id, code, &mut self.outbox.written);
        self.streams.closed.note_reset(id, if end { 0 } else { self.start.counted });
        self.count_answer()
    }

    /// Handles the head of a response, final or informational (section 8.1).
    fn on_response(
        &mut self,
        stream: StreamHandle,
        end: bool,
    ) -> Result<Option<Event<'static>>, Violation> {
        let fields = self.fields();
        let is_whole = fields.head.has_pseudo_exactly(&[Key::STATUS]);
        let fault = match fields.fault() {
            None if !is_whole => Some(Violation::BadPseudoField),
            fault => fault,
        };
        if let Some(fault) = fault {
            return self.fault(stream, fault);
        }
        if fields.head.value(Key::STATUS).is_some_and(|status| status < 200) {
            if end {
                return self.fault(stream, Violation::InformationalEnd);
            }
            return self.budgets.bear_idle(self.now).map(|()| None);
        }
        let length = fields.head.value(Key::CONTENT_LENGTH);
        let s = self.streams.at(stream.slot);
        s.has_head = true;
        s.content_left = length.unwrap_or(ANY_LENGTH);
        self.budgets.note_progress();
        if end {
            // The content-length may describe content that a HEAD request did not ask for.
            self.end_remote(stream);
        }
        Ok(Some(Event::Head { stream, data: Piece::EMPTY, end }))
    }

    /// Handles the second field block of a message.
    fn on_trailers(
        &mut self,
        stream: StreamHandle,
        end: bool,
    ) -> Result<Option<Event<'static>>, Violation> {
        let left = self.streams.at(stream.slot).content_left;
        let fault = match self.fields().fault() {
            Some(fault) => Some(fault),
            None if !end => Some(Violation::MisplacedFields),
            None if !self.fields().head.has_no_pseudo() => Some(Violation::BadPseudoField),
            None if left != ANY_LENGTH && left != 0 => Some(Violation::BadContentLength),
            None => None,
        };
        if let Some(fault) = fault {
            return self.fault(stream, fault);
        }
        self.end_remote(stream);
        Ok(Some(Event::Trailers { stream }))
    }

    /// Resets a stream because of what the peer did on it (section 5.4.2).
    ///
    /// # Errors
    ///
    /// Fails when that happens too often.
    #[cold]
    pub(super) fn fault(
        &mut self,
        stream: StreamHandle,
        violation: Violation,
    ) -> Result<Option<Event<'static>>, Violation> {
        let code = violation.code();
        self.give_up(stream, code);
        self.count_answer()?;
        if R::IS_SERVER {
            self.unserved.malformed += 1;
            self.budgets.bear_reset(self.now)?;
        }
        Ok(Some(Event::Failed { stream, code }))
    }

    /// Ends a stream and keeps its slot. `by_us` says that frames of the peer may still arrive.
    pub(super) fn retire(&mut self, stream: StreamHandle, by_us: bool) {
        self.forget_queue(stream);
        let window = self.streams.at(stream.slot).window;
        self.growth.note_ended(&window);
        self.streams.retire(stream, by_us);
    }

    /// Ends a stream that was reset. A server's slot is kept until it is let go.
    pub(super) fn abandon(&mut self, stream: StreamHandle, by_us: bool) {
        self.retire(stream, by_us);
        if !R::IS_SERVER {
            self.streams.let_go(stream);
            self.note_capacity();
        }
    }

    /// Queues a `Capacity` event if a stream could not be opened before and one can be now.
    #[inline]
    pub(super) fn note_capacity(&mut self) {
        if !R::IS_SERVER && self.is_starved && self.room() > 0 && self.failed.is_none() {
            self.is_starved = false;
            self.pending.push_back(Event::Capacity);
        }
    }

    /// How many streams this end can open now.
    pub(super) fn room(&self) -> usize {
        if self.is_leaving || self.next_own > MAX_31 || self.failed.is_some() {
            return 0;
        }
        (self.peer.max_streams as usize).saturating_sub(self.streams.live())
    }
}

/// The pseudo-fields that a request must have (section 8.3.1); `:authority` may be missing.
const REQUEST: &[Key] = &[Key::METHOD, Key::SCHEME, Key::PATH];
