//! The sending side of one stream: its queue and its credit (sections 5 and 6).

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::frame::{OutgoingFrame, cost};
use super::{CHECKSUM_LEN, Flags, FrameKind, HEADER_LEN, REQUEST_HEAD_LEN, StreamId};
use crate::limits::{
    NATIVE_FRAGMENT_MIN, NATIVE_ITEMS_KEPT, NATIVE_SMALL_TURN, NATIVE_STREAM_KEPT,
};

/// The queue in which a stream waits for the socket: small messages go before fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Small,
    Large,
}

/// What follows a message.
#[derive(Debug)]
pub(super) enum Ending {
    /// More messages may follow.
    Open,
    /// Nothing: this side of the stream ends.
    End,
    /// Nothing: the message is part of a RESPONSE with this status and metadata.
    Response { status: u8, meta: Vec<u8> },
}

/// A message that is fragmented when the socket asks for bytes.
#[derive(Debug)]
pub(super) struct LongMessage {
    /// The head of the REQUEST, if this message opens its stream.
    pub(super) request: Option<[u8; REQUEST_HEAD_LEN]>,
    /// Flags and metadata of the first frame.
    pub(super) flags: Flags,
    pub(super) meta: Vec<u8>,
    pub(super) body: Bytes,
    pub(super) ending: Ending,
}

impl LongMessage {
    /// Makes the message that `frame` starts: its last fragment has the same kind, unless that is
    /// REQUEST, which only the first has.
    pub(super) fn new(frame: &OutgoingFrame<'_>, body: Bytes) -> Self {
        let meta = frame.meta.to_vec();
        let flags = frame.flags.without(Flags::END);
        if frame.kind == FrameKind::Response {
            let ending = Ending::Response { status: frame.aux as u8, meta };
            return Self { request: None, flags, meta: Vec::new(), body, ending };
        }
        let ends = frame.flags.contains(Flags::END);
        let ending = if ends { Ending::End } else { Ending::Open };
        let request = frame.head.first_chunk().copied();
        Self { request, flags, meta, body, ending }
    }
}

#[derive(Debug)]
enum Item {
    /// That many bytes of small whole frames in `frames`.
    Frames(usize),
    Long {
        message: LongMessage,
        len: u32,
        is_started: bool,
    },
}

impl Item {
    fn into_body(self) -> Option<Bytes> {
        match self {
            Self::Frames(_) => None,
            Self::Long { message, .. } => Some(message.body),
        }
    }
}

/// A run of frames that leave a queue in one turn.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) range: Range<usize>,
    pub(super) count: usize,
    /// Whether the last frame is a RESPONSE.
    pub(super) is_final: bool,
}

/// A fragment whose header is written.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) body: Bytes,
    pub(super) crc: Option<u32>,
    /// Whether it is the first fragment of a REQUEST.
    pub(super) opens: bool,
    /// Whether it is the last fragment of a RESPONSE.
    pub(super) is_final: bool,
}

/// The sending side of a stream.
#[derive(Debug, Default)]
pub(super) struct SendSide {
    /// Bytes that the peer currently accepts.
    pub(super) credit: u32,
    /// Encoded small frames; those before `head` are sent.
    frames: Vec<u8>,
    head: usize,
    items: VecDeque<Item>,
    waiting: usize,
    /// The stream's earlier frames end before this position of the output.
    pub(super) after: u64,
    pub(super) wants_writable: bool,
    /// Whether nothing more may be queued.
    pub(super) has_ended: bool,
}

impl SendSide {
    /// Resets the state for another stream, after the last one was [cleared](Self::clear).
    pub(super) fn reset(&mut self, credit: u32) {
        debug_assert!(self.items.is_empty(), "what has waited was given up with its stream");
        self.credit = credit;
        self.after = 0;
        self.wants_writable = false;
        self.has_ended = false;
    }

    /// Drops the queue: bodies go to `discarded`. Buffers are kept up to a limit.
    pub(super) fn clear(&mut self, discarded: &mut Vec<Bytes>) {
        discarded.extend(self.items.drain(..).filter_map(Item::into_body));
        self.items.shrink_to(NATIVE_ITEMS_KEPT);
        self.frames.clear();
        self.frames.shrink_to(NATIVE_STREAM_KEPT);
        self.head = 0;
        self.waiting = 0;
    }

    /// Memory, in bytes, of buffers that stay for the next stream.
    pub(super) fn spare(&self) -> usize {
        self.frames.capacity() + self.items.capacity() * size_of::<Item>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes that are queued.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether the next item is the REQUEST that opens the stream.
    pub(super) fn opens_next(&self) -> bool {
        let front = self.items.front();
        matches!(front, Some(Item::Long { message, is_started: false, .. }) if message.request.is_some())
    }

    /// Queues a small message.
    pub(super) fn push_frame(&mut self, frame: &OutgoingFrame<'_>, with_crc: bool) {
        if self.head > NATIVE_STREAM_KEPT && self.head * 2 > self.frames.len() {
            self.frames.drain(..self.head);
            self.head = 0;
        }
        let start = self.frames.len();
        frame.append(with_crc, &mut self.frames);
        let len = self.frames.len() - start;
        self.waiting += len;
        match self.items.back_mut() {
            Some(Item::Frames(bytes)) => *bytes += len,
            _ => self.items.push_back(Item::Frames(len)),
        }
    }

    /// Queues a message that will be fragmented.
    pub(super) fn push_long(&mut self, message: LongMessage) {
        let len = message.body.len();
        self.waiting += len + HEADER_LEN;
        self.items.push_back(Item::Long { message, len: len as u32, is_started: false });
    }

    /// The lane in which the queue can continue, if its credit suffices.
    #[inline]
    pub(super) fn ready(&self) -> Option<Lane> {
        match self.items.front()? {
            Item::Frames(_) => {
                let (_, cost, _) = self.frame_at(self.head);
                (cost <= self.credit).then_some(Lane::Small)
            }
            Item::Long { message, .. } => {
                // A few bytes of credit are not worth a header; the peer returns half a window
                // at a time.
                let least = message.body.len().min(NATIVE_FRAGMENT_MIN);
                (cost(least) <= self.credit).then_some(Lane::Large)
            }
        }
    }

    /// Takes small frames from the front: at least one, otherwise within `budget` bytes.
    pub(super) fn take_frames(&mut self, budget: usize) -> Run {
        let Some(Item::Frames(bytes)) = self.items.front() else {
            return Run { range: 0..0, count: 0, is_final: false };
        };
        let (start, end) = (self.head, self.head + *bytes);
        let mut run = Run { range: start..start, count: 0, is_final: false };
        while run.range.end < end && run.count < NATIVE_SMALL_TURN {
            let (len, cost, is_final) = self.frame_at(run.range.end);
            let is_over = run.range.end + len - start > budget && run.count > 0;
            if cost > self.credit || is_over {
                break;
            }
            self.credit -= cost;
            run.range.end += len;
            run.count += 1;
            run.is_final = is_final;
        }
        self.advance(run.range.len(), end);
        run
    }

    fn advance(&mut self, taken: usize, end: usize) {
        self.head += taken;
        self.waiting -= taken;
        if self.head < end {
            self.items[0] = Item::Frames(end - self.head);
        } else {
            self.items.pop_front();
        }
    }

    /// The bytes of a run; call [`SendSide::recycle`] when they are sent.
    pub(super) fn frames(&self, run: &Run) -> &[u8] {
        &self.frames[run.range.clone()]
    }

    /// Reuses the buffer of small frames from its start when all of it is sent.
    pub(super) fn recycle(&mut self) {
        if self.head == self.frames.len() {
            self.frames.clear();
            self.head = 0;
        }
    }

    /// Length and credit cost of the queued frame at offset `at`, and whether it is a RESPONSE.
    #[inline]
    fn frame_at(&self, at: usize) -> (usize, u32, bool) {
        let head: &[u8; 8] = self.frames[at..].first_chunk().expect("whole frames are queued");
        let low = u64::from_le_bytes(*head);
        let (len, code) = (low as u32 as usize, (low >> 32) as u8);
        let (flags, meta_len) = (Flags::from_bits((low >> 40) as u8), (low >> 48) as usize);
        let crc_len = if flags.contains(Flags::CRC) { CHECKSUM_LEN } else { 0 };
        let is_empty = flags.contains(Flags::NOMSG);
        let cost = if is_empty { 0 } else { cost(len - meta_len - crc_len) };
        (HEADER_LEN + len, cost, code == FrameKind::Response.code())
    }

    /// Cuts up to `len_max` bytes off the long message in front and appends the fragment's header
    /// to `head`.
    pub(super) fn cut(
        &mut self,
        id: StreamId,
        len_max: usize,
        with_crc: bool,
        head: &mut Vec<u8>,
    ) -> Option<Fragment> {
        let Some(Item::Long { message, len, is_started }) = self.items.front_mut() else {
            return None;
        };
        let taken = message.body.len().min(len_max).min(self.credit as usize);
        let body = message.body.split_to(taken);
        self.credit = self.credit.saturating_sub(cost(taken));
        let opens = !*is_started && message.request.is_some();
        let is_last = message.body.is_empty();
        let is_final = is_last && matches!(message.ending, Ending::Response { .. });
        let frame = Self::fragment_parts(message, id, *len, !*is_started);
        let crc = frame.append_head(taken, with_crc, head);
        let crc = crc.map(|crc| crc32c::crc32c_append(crc, &body));
        *is_started = true;
        self.waiting -= taken;
        if is_last {
            self.items.pop_front();
            self.waiting -= HEADER_LEN;
        }
        Some(Fragment { body, crc, opens, is_final })
    }

    /// The frame of a fragment whose bytes were just split off `message`.
    fn fragment_parts<'m>(
        message: &'m LongMessage,
        id: StreamId,
        len: u32,
        is_first: bool,
    ) -> OutgoingFrame<'m> {
        let mut frame = OutgoingFrame {
            kind: FrameKind::Data,
            flags: Flags::NONE,
            stream: id,
            aux: 0,
            head: &[],
            meta: &[],
            payload: &[],
        };
        if is_first {
            frame.flags = message.flags;
            frame.meta = &message.meta;
            if let Some(head) = &message.request {
                frame.kind = FrameKind::Request;
                frame.head = head;
            }
        }
        if !message.body.is_empty() {
            frame.flags |= Flags::MORE;
            frame.aux = if is_first { len } else { 0 };
            return frame;
        }
        match &message.ending {
            Ending::Open => {}
            Ending::End => frame.flags |= Flags::END,
            Ending::Response { status, meta } => {
                frame.kind = FrameKind::Response;
                frame.flags |= Flags::END;
                frame.aux = u32::from(*status);
                frame.meta = meta;
            }
        }
        frame
    }
}
