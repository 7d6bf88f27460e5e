//! Decodes received bytes into frames, and frames into events.

use std::time::Duration;

use super::arriving::Arriving;
use super::connection::{Connection, Handshake};
use super::frames::{FrameHeader, HEADER_LEN, PREFACE, flag, kind};
use super::role::Role;
use super::{Event, Violation};
use crate::limits::{HTTP2_BLOCK_MAX, HTTP2_FRAME_MAX, HTTP2_PARTIAL_KEPT};

/// The result of one decoding step.
pub(super) enum Step<'i> {
    Event(Event<'i>),
    /// No event; there may be more input.
    Again,
    /// The input is used up.
    Done,
}

impl<R: Role> Connection<R> {
    /// Decodes frames from the front of `input` until one yields an event.
    ///
    /// `None` means that the input is used up; a frame cut at its end is buffered. The event
    /// borrows from `input` only, so the machine can be used while the event is alive. Events
    /// caused by other calls ([`has_events`](Self::has_events)) come first, even with an empty
    /// input.
    ///
    /// # Errors
    ///
    /// Fails when the peer broke the protocol, and with the same error at every later call.
    /// [`transmit`](Self::transmit) still hands out the GOAWAY; close the connection after that.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<Event<'i>>, Violation> {
        self.now = now;
        if !input.is_empty() {
            self.keepalive.hear(now);
        }
        if let Some(violation) = self.failed {
            return Err(violation);
        }
        if !self.held_resets.is_empty() {
            self.release_resets();
        }
        loop {
            match self.step(input) {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Again) => {}
                Ok(Step::Done) => return Ok(None),
                Err(violation) => return Err(self.fail(violation)),
            }
        }
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Violation> {
        if let Some(event) = self.pending.pop_front() {
            if let Event::Failed { stream, code } = event {
                self.end_stalled(stream, code);
            }
            return Ok(Step::Event(event));
        }
        if self.arriving.is_active {
            return self.data_piece(input);
        }
        if self.stage == Handshake::Preface {
            return self.take_preface(input);
        }
        if !self.partial.is_empty() {
            return self.resume(input);
        }
        let Some((head, rest)) = input.split_first_chunk::<HEADER_LEN>() else {
            return if input.is_empty() { Ok(Step::Done) } else { self.resume(input) };
        };
        let header = FrameHeader::decode(head);
        if self.is_plain_block(header)
            && let Some((block, rest)) = rest.split_at_checked(header.len as usize)
        {
            *input = rest;
            let event = self.on_block(header.stream, block, header.has(flag::END_STREAM))?;
            return Ok(self.with_next(event, input));
        }
        self.check_header(header)?;
        if header.is_unassembled() {
            *input = rest;
            self.begin_unassembled(header)?;
            return Ok(Step::Again);
        }
        let Some((body, rest)) = rest.split_at_checked(header.len as usize) else {
            return self.resume(input);
        };
        *input = rest;
        let event = self.on_frame(header, body)?;
        Ok(self.with_next(event, input))
    }

    /// Whether a frame qualifies for the fast path: a complete field block with nothing around it.
    #[inline]
    fn is_plain_block(&self, header: FrameHeader) -> bool {
        header.kind == kind::HEADERS
            && header.flags & !flag::END_STREAM == flag::END_HEADERS
            && header.stream != 0
            && header.len <= self.config.max_frame
            && self.block.is_none()
            && self.stage == Handshake::Open
    }

    /// Turns the event of a frame into a step, together with DATA right behind it.
    #[inline]
    fn with_next<'i>(&mut self, event: Option<Event<'static>>, input: &mut &'i [u8]) -> Step<'i> {
        match event {
            Some(Event::Head { stream, end: false, .. }) => {
                Step::Event(self.with_data(stream, input))
            }
            Some(event) => Step::Event(event),
            None => Step::Again,
        }
    }

    /// Takes the client's preface off the input (section 3.4).
    fn take_preface<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Violation> {
        let expected = &PREFACE[usize::from(self.preface_len)..];
        let (front, rest) = input.split_at(expected.len().min(input.len()));
        if front != &expected[..front.len()] {
            return Err(Violation::NotHttp2);
        }
        *input = rest;
        self.preface_len += front.len() as u8;
        if usize::from(self.preface_len) < PREFACE.len() {
            return Ok(Step::Done);
        }
        self.stage = Handshake::Settings;
        Ok(Step::Again)
    }

    /// Checks a frame's header before its payload has arrived.
    fn check_header(&self, header: FrameHeader) -> Result<(), Violation> {
        header.check(self.config.max_frame)?;
        let has_block = matches!(header.kind, kind::HEADERS | kind::CONTINUATION);
        if has_block && header.len as usize > HTTP2_BLOCK_MAX {
            return Err(Violation::BlockTooLong);
        }
        if !header.is_unassembled() && header.len > HTTP2_FRAME_MAX {
            return Err(Violation::FrameTooLong);
        }
        let continues = header.kind == kind::CONTINUATION;
        match &self.block {
            Some(block) if !continues || header.stream != block.stream => {
                return Err(Violation::NotContinued);
            }
            None if continues => return Err(Violation::NothingToContinue),
            Some(_) | None => {}
        }
        let is_settings = header.kind == kind::SETTINGS && !header.has(flag::ACK);
        if self.stage == Handshake::Settings && !is_settings {
            return Err(Violation::NoSettings);
        }
        Ok(())
    }

    /// Begins a frame whose payload is handled as it arrives.
    fn begin_unassembled(&mut self, header: FrameHeader) -> Result<(), Violation> {
        if header.kind == kind::DATA {
            return self.on_data(header);
        }
        self.budgets.bear_idle(self.now)?;
        self.arriving = Arriving::skipped(header.len);
        Ok(())
    }

    /// Continues a frame that arrived in pieces.
    #[cold]
    fn resume<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Violation> {
        if !self.fill(HEADER_LEN, input) {
            return Ok(Step::Done);
        }
        let head = self.partial.first_chunk().expect("a header was filled");
        let header = FrameHeader::decode(head);
        self.check_header(header)?;
        if header.is_unassembled() {
            self.partial.clear();
            self.begin_unassembled(header)?;
            return Ok(Step::Again);
        }
        if !self.fill(HEADER_LEN + header.len as usize, input) {
            return Ok(Step::Done);
        }
        let mut partial = std::mem::take(&mut self.partial);
        let event = self.on_frame(header, &partial[HEADER_LEN..])?;
        partial.clear();
        partial.shrink_to(HTTP2_PARTIAL_KEPT);
        self.partial = partial;
        Ok(event.map_or(Step::Again, Step::Event))
    }

    /// Moves bytes from `input` until `len` are buffered. Memory grows with the bytes received.
    fn fill(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let missing = len - self.partial.len().min(len);
        let (now, rest) = input.split_at(missing.min(input.len()));
        self.partial.extend_from_slice(now);
        *input = rest;
        now.len() == missing
    }
}
