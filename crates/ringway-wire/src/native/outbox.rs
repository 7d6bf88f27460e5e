//! The output of a connection, and the order in which it leaves (section 5).

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::OutgoingFrame;
use super::send_side::Lane;
use super::streams::Streams;
use super::{Body, FrameKind};
use crate::limits::{NATIVE_OUTPUT_KEPT, NATIVE_SMALL_MAX, NATIVE_SMALL_TURN};

/// Bytes that leave the connection.
#[derive(Debug)]
pub enum Outgoing<'a> {
    /// Bytes to be copied before the call returns.
    Copy(&'a [u8]),
    /// Bytes to be sent without copying.
    Shared(Bytes),
}

/// The next source of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// That many bytes of the written frames.
    Written(usize),
    /// The body that follows the header written last.
    Body,
    /// The stream with this index.
    Stream(u32),
    Nobody,
}

/// Frames that are written already, and queues of streams that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Encoded whole frames: control frames, and small messages with nothing of their stream queued
    /// before them.
    written: Vec<u8>,
    /// Bytes of `written` that are sent.
    sent: usize,
    /// Position of the first byte of `written` in the connection's output as a whole.
    base: u64,
    /// Bodies sent without copying, each with the position of `written` after which it is due.
    bodies: VecDeque<(u64, Bytes)>,
    bodies_len: usize,
    /// Positions, between frames, where a fragment is let through, each with the number of REQUESTs
    /// written before it.
    marks: VecDeque<(u64, u64)>,
    /// REQUESTs written so far, whether sent or not.
    requests: u64,
    /// Written REQUESTs that are sent after the stream whose turn it is.
    overtaken: u64,
    small: VecDeque<u32>,
    large: VecDeque<u32>,
    /// Small messages sent since the last fragment.
    streak: usize,
    /// Unsent frames that the peer caused: those up to `answers_mark`, and those behind it.
    answers: [usize; 2],
    answers_mark: u64,
    /// Buffer in which the headers of fragments are assembled.
    scratch: Vec<u8>,
    pub(super) with_crc: bool,
}

impl Outbox {
    /// Appends bytes that are not a frame.
    pub(super) fn put_raw(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
    }

    /// Appends a frame to the written ones.
    pub(super) fn put(&mut self, frame: &OutgoingFrame<'_>) {
        self.put_inline(frame);
    }

    /// As [`put`](Self::put), inlined for the frames of which calls consist.
    #[inline(always)]
    pub(super) fn put_inline(&mut self, frame: &OutgoingFrame<'_>) {
        frame.append(self.with_crc, &mut self.written);
        self.count_request(frame);
        if !self.large.is_empty() {
            self.pass_fragments();
        }
    }

    #[inline(always)]
    fn count_request(&mut self, frame: &OutgoingFrame<'_>) {
        if frame.kind == FrameKind::Request {
            self.requests += 1;
        }
    }

    /// Appends `frame` with `body` as its payload, which is copied only if it is small.
    #[inline(always)]
    pub(super) fn put_body(&mut self, frame: &OutgoingFrame<'_>, body: &Body<'_>) {
        match body {
            Body::Shared(bytes) if bytes.len() > NATIVE_SMALL_MAX => self.put_shared(frame, bytes),
            _ => self.put_inline(&OutgoingFrame { payload: body.as_ref(), ..*frame }),
        }
    }

    #[inline(never)]
    fn put_shared(&mut self, frame: &OutgoingFrame<'_>, body: &Bytes) {
        let crc = frame.append_head(body.len(), self.with_crc, &mut self.written);
        self.bodies.push_back((self.end(), body.clone()));
        self.bodies_len += body.len();
        if let Some(crc) = crc {
            let crc = crc32c::crc32c_append(crc, body);
            self.written.extend_from_slice(&crc.to_le_bytes());
        }
        self.count_request(frame);
        if !self.large.is_empty() {
            self.pass_fragments();
        }
    }

    /// Appends a frame that the peer caused, and returns how many such frames are unsent.
    pub(super) fn put_answer(&mut self, frame: &OutgoingFrame<'_>) -> usize {
        self.put(frame);
        self.answers[1] += 1;
        self.answers[0] + self.answers[1]
    }

    fn pass_fragments(&mut self) {
        self.streak += 1;
        if self.streak >= NATIVE_SMALL_TURN {
            self.streak = 0;
            self.marks.push_back((self.end(), self.requests));
        }
    }

    /// The position behind all written bytes.
    pub(super) fn end(&self) -> u64 {
        self.base + self.written.len() as u64
    }

    /// Bytes written and not sent yet.
    #[inline]
    pub(super) fn backlog(&self) -> usize {
        self.written.len() - self.sent + self.bodies_len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog() == 0 && self.small.is_empty() && self.large.is_empty()
    }

    /// Appends a stream to the queue of its lane.
    pub(super) fn enqueue(&mut self, index: u32, lane: Lane) {
        match lane {
            Lane::Small => self.small.push_back(index),
            Lane::Large => self.large.push_back(index),
        }
    }

    /// Whether no stream is queued.
    pub(super) fn is_alone(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// Written REQUESTs that are sent after the stream that was picked last.
    pub(super) fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Picks the next source of output; a stream that is picked leaves its queue.
    #[inline]
    pub(super) fn turn(&mut self, streams: &Streams) -> Turn {
        self.overtaken = 0;
        if self.backlog() > 0 {
            return self.turn_of_written(streams);
        }
        let is_large = self.small.is_empty() || self.streak >= NATIVE_SMALL_TURN;
        if is_large && let Some(index) = self.large.pop_front() {
            self.streak = 0;
            self.marks.clear();
            return Turn::Stream(index);
        }
        self.small.pop_front().map_or(Turn::Nobody, Turn::Stream)
    }

    fn turn_of_written(&mut self, streams: &Streams) -> Turn {
        let here = self.base + self.sent as u64;
        let body = self.bodies.front().map(|&(at, _)| at);
        if body == Some(here) {
            return Turn::Body; // marks at this position come after it
        }
        let mut sent = None;
        while let Some(&(mark, requests)) = self.marks.front()
            && mark <= here
        {
            self.marks.pop_front();
            sent = Some(requests);
        }
        if let Some(requests) = sent {
            // Not before earlier frames of the same stream, whose order would change.
            let first = self.large.front().copied();
            if let Some(index) = first.filter(|&index| streams.is_in_order(index, here)) {
                self.large.pop_front();
                self.overtaken = self.requests - requests;
                return Turn::Stream(index);
            }
        }
        let stop = self.marks.front().map_or(self.end(), |&(mark, _)| mark);
        let stop = body.map_or(stop, |body| body.min(stop));
        Turn::Written((stop - here) as usize)
    }

    /// Counts small messages sent from the queues of streams.
    pub(super) fn count_small(&mut self, count: usize) {
        self.streak += count;
    }

    /// Sends the next `len` written bytes.
    #[inline]
    pub(super) fn emit(&mut self, len: usize, out: &mut dyn FnMut(Outgoing<'_>)) -> usize {
        let end = self.sent + len;
        out(Outgoing::Copy(&self.written[self.sent..end]));
        self.sent = end;
        if end == self.written.len() {
            self.base += end as u64;
            self.written.clear();
            self.sent = 0;
            self.answers = [0; 2];
        }
        if self.base + self.sent as u64 >= self.answers_mark {
            self.answers = [self.answers[1], 0];
            self.answers_mark = self.end();
        }
        len
    }

    /// Sends up to `len` bytes of the body at the front.
    pub(super) fn emit_body(&mut self, len: usize, out: &mut dyn FnMut(Outgoing<'_>)) -> usize {
        let Some((_, body)) = self.bodies.front_mut() else { return 0 };
        let part = body.split_to(len.min(body.len()));
        if body.is_empty() {
            self.bodies.pop_front();
        }
        let len = part.len();
        self.bodies_len -= len;
        out(Outgoing::Shared(part));
        len
    }

    /// Frees memory left over from a burst, and that of bytes already sent.
    #[inline]
    pub(super) fn compact(&mut self) {
        if self.written.capacity() > NATIVE_OUTPUT_KEPT {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        if self.sent * 2 > self.written.len() {
            self.written.drain(..self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
        if self.written.len() * 4 < self.written.capacity() {
            self.written.shrink_to(NATIVE_OUTPUT_KEPT);
        }
    }

    /// Takes the buffer for a fragment's header, which the caller returns with `give_back`.
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    pub(super) fn give_back(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        scratch.shrink_to(NATIVE_OUTPUT_KEPT);
        self.scratch = scratch;
    }

    /// Empties the queues of streams, so that nothing more is sent of them. Written frames stay.
    pub(super) fn drop_streams(&mut self) {
        self.small.clear();
        self.large.clear();
        self.marks.clear();
    }

    /// Drops what is written as well, because the peer no longer reads: bodies go to `discarded`.
    pub(super) fn drop_written(&mut self, discarded: &mut Vec<Bytes>) {
        self.base = self.end();
        self.written = Vec::new();
        self.sent = 0;
        discarded.extend(std::mem::take(&mut self.bodies).into_iter().map(|(_, body)| body));
        self.bodies_len = 0;
    }

    /// Makes all fragments wait until the next frame is written and sent.
    pub(super) fn bar_fragments(&mut self) {
        self.marks.clear();
    }
}
