//! Written frames, in the order in which they leave.

use bytes::Bytes;

use super::frames::{FrameHeader, HEADER_LEN, kind};
use crate::limits::HTTP2_OUTPUT_KEPT;
use crate::native::Outgoing;
use crate::rare_queue::RareQueue;

/// Whole frames in one buffer, interleaved with payloads that are not copied.
#[derive(Debug, Default)]
pub(super) struct WrittenFrames {
    pub(super) written: Vec<u8>,
    /// Position of the last DATA frame whose payload is in `written`. No connection begins with
    /// DATA, so 0 stands for none.
    data_at: u64,
    /// Bytes of `written` that are handed out.
    sent: usize,
    /// Position of `written`'s first byte in the connection's output as a whole.
    base: u64,
    /// Payloads sent without copying, each with the position of `written` after which it is due.
    bodies: RareQueue<(u64, Bytes)>,
    bodies_len: usize,
    /// Unsent frames that the peer asked for: those up to `answers_mark`, and those behind it.
    answers: [u32; 2],
    answers_mark: u64,
}

impl WrittenFrames {
    /// The position behind all written bytes.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.base + self.written.len() as u64
    }

    /// The position up to which all bytes are handed out.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.base + self.sent as u64
    }

    /// Bytes that are written and not handed out.
    #[inline]
    pub(super) fn backlog(&self) -> usize {
        self.written.len() - self.sent + self.bodies_len
    }

    /// Appends a DATA frame, or its payload to the last frame, if that is one of the same stream that
    /// has not left and goes on. So small messages that are sent one after the other are one frame.
    #[inline]
    pub(super) fn put_data(
        &mut self,
        header: FrameHeader,
        prefix: &[u8],
        body: &[u8],
        len_max: u32,
    ) {
        match self.last_data(header.stream).filter(|(_, last)| last.len + header.len <= len_max) {
            Some((at, last)) => {
                let longer = FrameHeader { len: last.len + header.len, ..header };
                self.written[at..at + HEADER_LEN].copy_from_slice(&longer.encode());
            }
            None => {
                self.data_at = self.end();
                self.written.extend_from_slice(&header.encode());
            }
        }
        self.written.extend_from_slice(prefix);
        self.written.extend_from_slice(body);
    }

    /// The index and the header of the last DATA frame, if it is of this stream, the last of all
    /// frames, and can grow.
    #[inline]
    fn last_data(&self, stream: u32) -> Option<(usize, FrameHeader)> {
        let at = self.data_at.checked_sub(self.left())? as usize + self.sent;
        let header = FrameHeader::decode(self.written.get(at..)?.first_chunk()?);
        let can_grow = header.kind == kind::DATA
            && header.stream == stream
            && header.flags == 0
            && at + HEADER_LEN + header.len as usize == self.written.len();
        can_grow.then_some((at, header))
    }

    /// Appends a payload after the header of its frame.
    pub(super) fn put_shared(&mut self, body: Bytes) {
        self.data_at = 0;
        self.bodies_len += body.len();
        self.bodies.push_back((self.end(), body));
    }

    /// Counts a frame that the peer asked for, and returns how many such frames are unsent.
    pub(super) fn count_answer(&mut self) -> u32 {
        self.answers[1] += 1;
        self.answers[0] + self.answers[1]
    }

    /// Hands out written bytes: at least one if there is any, and at most about `budget`.
    pub(super) fn emit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) -> usize {
        let mut total = 0;
        while total < budget && self.backlog() > 0 {
            let here = self.left();
            let stop = self.bodies.front().map_or(self.end(), |&(at, _)| at);
            if stop == here {
                total += self.emit_body(budget - total, out);
                continue;
            }
            let len = ((stop - here) as usize).min(budget - total);
            out(Outgoing::Copy(&self.written[self.sent..self.sent + len]));
            self.sent += len;
            total += len;
        }
        self.note_left();
        total
    }

    fn emit_body(&mut self, len: usize, out: &mut dyn FnMut(Outgoing<'_>)) -> usize {
        let Some((_, body)) = self.bodies.front_mut() else { return 0 };
        let part = body.split_to(len.min(body.len()));
        if body.is_empty() {
            self.bodies.pop_front();
        }
        self.bodies_len -= part.len();
        let len = part.len();
        out(Outgoing::Shared(part));
        len
    }

    fn note_left(&mut self) {
        if self.backlog() == 0 {
            self.base = self.end();
            self.written.clear();
            self.sent = 0;
            self.answers = [0; 2];
            self.written.shrink_to(HTTP2_OUTPUT_KEPT);
        } else if self.sent * 2 > self.written.len() && self.sent > HTTP2_OUTPUT_KEPT {
            self.written.drain(..self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
        if self.left() >= self.answers_mark {
            self.answers = [self.answers[1], 0];
            self.answers_mark = self.end();
        }
    }

    /// Frees the memory of frames that have left.
    pub(super) fn drop_spare(&mut self) {
        self.written.shrink_to_fit();
        self.bodies.drop_spare();
    }

    /// Drops all output because the peer no longer reads: payloads go to `discarded`.
    pub(super) fn drop_written(&mut self, discarded: &mut Vec<Bytes>) {
        while let Some((_, body)) = self.bodies.pop_front() {
            discarded.push(body);
        }
        *self = Self { base: self.end(), ..Self::default() };
    }
}
