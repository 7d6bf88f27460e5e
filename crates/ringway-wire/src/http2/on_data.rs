//! Received DATA frames (RFC 9113, section 6.1).

use super::arriving::Arriving;
use super::closed::Past;
use super::connection::Connection;
use super::frames::{FrameHeader, HEADER_LEN, flag, kind};
use super::put::put_window_update;
use super::receive::Step;
use super::role::Role;
use super::stream::ANY_LENGTH;
use super::{Event, StreamHandle, Violation};
use crate::limits::{HTTP2_CONNECTION_WINDOW, HTTP2_UPDATE_WORTH};
use crate::native::Piece;

impl<R: Role> Connection<R> {
    /// Handles the header of a DATA frame. All its bytes count for the windows, even if they are
    /// dropped.
    pub(super) fn on_data(&mut self, header: FrameHeader) -> Result<(), Violation> {
        self.spend_window(header.len)?;
        let wants_padding = header.has(flag::PADDED);
        if wants_padding && header.len == 0 {
            return Err(Violation::WrongLength);
        }
        let stream = self.streams.find(header.stream);
        let stream = match stream {
            Some(stream) if self.streams.at(stream.slot).remote_ended => {
                self.fault_later(stream, Violation::StreamClosed)?;
                None
            }
            Some(stream) if !self.streams.at(stream.slot).has_head => {
                self.fault_later(stream, Violation::BadPseudoField)?;
                None
            }
            Some(stream) => {
                if !self.streams.at(stream.slot).window.spend(header.len) {
                    return Err(Violation::WindowExceeded);
                }
                Some(stream)
            }
            None if self.is_idle(header.stream) => return Err(Violation::IdleStream),
            None => match self.streams.closed.past(header.stream) {
                Past::Reset => {
                    // Data in flight at the reset is normal. Short frames beyond what the stream's
                    // window allowed cost us work for nothing.
                    let was_allowed = header.len > 0 && self.streams.closed.take_late(header.len);
                    if header.len < HTTP2_UPDATE_WORTH && !was_allowed {
                        self.budgets.bear_idle(self.now)?;
                    }
                    None
                }
                Past::Ended | Past::Unknown => return Err(Violation::StreamClosed),
            },
        };
        self.arriving = Arriving {
            is_active: true,
            stream,
            left: header.len,
            padding: 0,
            wants_padding,
            end: header.has(flag::END_STREAM),
            has_content: false,
        };
        Ok(())
    }

    /// Resets a stream; the caller gets the event at its next `receive`.
    fn fault_later(&mut self, stream: StreamHandle, violation: Violation) -> Result<(), Violation> {
        if let Some(event) = self.fault(stream, violation)? {
            self.pending.push_back(event);
        }
        Ok(())
    }

    /// Accounts for bytes in the connection's window, whose credit returns as bytes arrive:
    /// back-pressure works by stream.
    #[inline]
    fn spend_window(&mut self, len: u32) -> Result<(), Violation> {
        self.window_left = self.window_left.checked_sub(len).ok_or(Violation::WindowExceeded)?;
        self.window_owed += len;
        if self.window_owed >= HTTP2_CONNECTION_WINDOW / 2 {
            let owed = std::mem::take(&mut self.window_owed);
            self.window_left += owed;
            put_window_update(0, owed, &mut self.outbox.written);
        }
        Ok(())
    }

    /// Takes the next part of a DATA frame off the input.
    pub(super) fn data_piece<'i>(&mut self, input: &mut &'i [u8]) -> Result<Step<'i>, Violation> {
        if self.arriving.wants_padding && !self.take_padding_len(input)? {
            return Ok(Step::Done);
        }
        let arriving = &mut self.arriving;
        if arriving.left > 0 {
            let (piece, rest) = input.split_at(input.len().min(arriving.left as usize));
            if piece.is_empty() {
                return Ok(Step::Done);
            }
            *input = rest;
            arriving.left -= piece.len() as u32;
            arriving.has_content = true;
            let end = arriving.end && arriving.left == 0;
            arriving.is_active = arriving.left > 0 || arriving.padding > 0;
            return self.on_piece(piece, end);
        }
        if arriving.padding > 0 {
            let (padding, rest) = input.split_at(input.len().min(arriving.padding as usize));
            arriving.padding -= padding.len() as u32;
            *input = rest;
            if arriving.padding > 0 {
                return Ok(Step::Done);
            }
        }
        arriving.is_active = false;
        match (arriving.has_content, arriving.end) {
            (true, _) => Ok(Step::Again),
            (false, true) => self.on_piece(&[], true),
            (false, false) => self.budgets.bear_idle(self.now).map(|()| Step::Again),
        }
    }

    /// Reads the length of the padding, which counts for the stream's window and is credited at
    /// once.
    fn take_padding_len(&mut self, input: &mut &[u8]) -> Result<bool, Violation> {
        let Some((&padding, rest)) = input.split_first() else {
            return Ok(false);
        };
        *input = rest;
        let arriving = &mut self.arriving;
        arriving.wants_padding = false;
        arriving.padding = u32::from(padding);
        let left = arriving.left - 1;
        arriving.left = left.checked_sub(arriving.padding).ok_or(Violation::PaddingTooLong)?;
        if let Some(stream) = arriving.stream {
            self.taken(stream, usize::from(padding) + 1);
        }
        Ok(true)
    }

    fn on_piece<'i>(&mut self, piece: &'i [u8], end: bool) -> Result<Step<'i>, Violation> {
        let Some(stream) = self.arriving.stream else {
            return Ok(Step::Again);
        };
        let Some(s) = self.streams.get(stream) else {
            // The stream was reset since the frame began.
            return Ok(Step::Again);
        };
        if s.content_left != ANY_LENGTH {
            let left = s.content_left.checked_sub(piece.len() as u64);
            match left.filter(|&left| !end || left == 0) {
                Some(left) => s.content_left = left,
                None => {
                    let failed = self.fault(stream, Violation::BadContentLength)?;
                    return Ok(failed.map_or(Step::Again, Step::Event));
                }
            }
        }
        self.budgets.note_progress();
        if end {
            self.end_remote(stream);
        }
        Ok(Step::Event(Event::Data { stream, data: Piece::Borrowed(piece), end }))
    }

    /// Returns what has arrived of a DATA frame's content, and its stream: a fast path for parts of a
    /// frame that [`receive`](Self::receive) has begun. `None` only means that the next input needs
    /// `receive`.
    #[inline]
    pub(crate) fn plain_content<'i>(
        &mut self,
        input: &'i [u8],
    ) -> Option<(StreamHandle, &'i [u8])> {
        let Arriving { is_active, stream, left, wants_padding, end, .. } = self.arriving;
        let is_plain = is_active && !wants_padding && !end && self.pending.is_empty();
        let stream = stream.filter(|_| is_plain && self.failed.is_none())?;
        self.streams.get(stream).filter(|s| s.content_left == ANY_LENGTH)?;
        Some((stream, &input[..input.len().min(left as usize)]))
    }

    /// Takes the first `len` bytes of [`plain_content`](Self::plain_content) off the input.
    #[inline]
    pub(crate) fn take_content(&mut self, len: usize, input: &mut &[u8]) {
        *input = &input[len..];
        let arriving = &mut self.arriving;
        arriving.left -= len as u32;
        arriving.is_active = arriving.left > 0 || arriving.padding > 0;
    }

    /// Puts back the last `len` bytes of the last event's data, so that the next event repeats
    /// them. `before` is the input as it was before that event. If the stream has ended meanwhile,
    /// nothing is repeated.
    pub(crate) fn put_back<'i>(
        &mut self,
        stream: StreamHandle,
        len: usize,
        end: bool,
        before: &'i [u8],
        input: &mut &'i [u8],
    ) {
        let Some(s) = self.streams.get(stream).filter(|_| len > 0) else {
            return;
        };
        s.remote_ended &= !end;
        if s.content_left != ANY_LENGTH {
            s.content_left += len as u64;
        }
        // Data is the last thing that was taken off the input.
        *input = &before[before.len() - input.len() - len..];
        let stream = Some(stream);
        if !self.arriving.is_active {
            self.arriving = Arriving { end, stream, has_content: true, ..Arriving::default() };
        }
        self.arriving.is_active = true;
        self.arriving.left += len as u32;
    }

    /// Makes the event of a message's head, including its data if the next frame is complete DATA.
    #[inline]
    pub(super) fn with_data<'i>(
        &mut self,
        stream: StreamHandle,
        input: &mut &'i [u8],
    ) -> Event<'i> {
        let alone = Event::Head { stream, data: Piece::EMPTY, end: false };
        let Some((head, rest)) = input.split_first_chunk::<HEADER_LEN>() else {
            return alone;
        };
        let header = FrameHeader::decode(head);
        let is_plain = header.kind == kind::DATA
            && header.flags & !flag::END_STREAM == 0
            && header.stream == stream.id
            && header.len > 0
            && header.len <= self.config.max_frame.min(self.window_left);
        let Some((data, rest)) = rest.split_at_checked(header.len as usize).filter(|_| is_plain)
        else {
            return alone;
        };
        let (s, end) = (self.streams.at(stream.slot), header.has(flag::END_STREAM));
        let content_left = match s.content_left {
            ANY_LENGTH => Some(ANY_LENGTH),
            left => left.checked_sub(header.len.into()).filter(|&left| !end || left == 0),
        };
        // A frame that does not fit is handled on the general path.
        let Some(content_left) = content_left.filter(|_| s.window.spend(header.len)) else {
            return alone;
        };
        s.content_left = content_left;
        // Cannot fail: the window was checked above.
        let _ = self.spend_window(header.len);
        *input = rest;
        self.budgets.note_progress();
        if end {
            self.end_remote(stream);
        }
        Event::Head { stream, data: Piece::Borrowed(data), end }
    }

    /// Records that the peer has ended its side of a stream.
    #[inline]
    pub(super) fn end_remote(&mut self, stream: StreamHandle) {
        let s = self.streams.at(stream.slot);
        s.remote_ended = true;
        if s.is_closed() {
            self.close(stream);
        }
    }

    /// Closes a stream that has ended on both sides.
    #[inline]
    pub(super) fn close(&mut self, stream: StreamHandle) {
        let s = self.streams.at(stream.slot);
        self.growth.note_ended(&s.window);
        self.streams.close(stream);
        self.budgets.note_finished();
        self.note_capacity();
    }
}
