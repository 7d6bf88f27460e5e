//! Frames that are written, in the order in which they leave.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::limits::HTTP2_OUTPUT_KEPT;
use crate::native::Outgoing;

/// Whole frames in one buffer, and between them payloads that are not copied.
#[derive(Debug, Default)]
pub(super) struct WrittenFrames {
    pub(super) written: Vec<u8>,
    /// Bytes of `written` that have left.
    sent: usize,
    /// Position of `written`'s first byte among all that were ever written.
    base: u64,
    /// Payloads, each to leave when `written` has left up to its position.
    bodies: VecDeque<(u64, Bytes)>,
    bodies_len: usize,
    /// Frames that the peer has asked for and that have not left: those up to `answers_mark`, and
    /// those behind it.
    answers: [usize; 2],
    answers_mark: u64,
}

impl WrittenFrames {
    /// The position behind all that is written.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.base + self.written.len() as u64
    }

    /// The position up to which all has left.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.base + self.sent as u64
    }

    /// Bytes that are written and have not left.
    #[inline]
    pub(super) fn backlog(&self) -> usize {
        self.written.len() - self.sent + self.bodies_len
    }

    /// Puts a payload behind its frame's header.
    pub(super) fn put_shared(&mut self, body: Bytes) {
        self.bodies_len += body.len();
        self.bodies.push_back((self.end(), body));
    }

    /// Counts an answer that was written; how many have not left.
    pub(super) fn count_answer(&mut self) -> usize {
        self.answers[1] += 1;
        self.answers[0] + self.answers[1]
    }

    /// Hands out what is written, at least one byte if there is one, and at most about `budget`.
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

    /// Lets all go, since nobody is there to read it: payloads go to `discarded`.
    pub(super) fn drop_written(&mut self, discarded: &mut Vec<Bytes>) {
        discarded.extend(self.bodies.drain(..).map(|(_, body)| body));
        *self = Self { base: self.end(), ..Self::default() };
    }
}
