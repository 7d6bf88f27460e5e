//! One stream: its state, its windows and its queue (RFC 9113, sections 5.1 and 5.2).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::{HTTP2_CHUNKS_KEPT, HTTP2_QUEUED_COST, HTTP2_SMALL_KEPT};
use crate::native::{Outgoing, Window};

/// Stands for a message without content-length.
pub(super) const ANY_LENGTH: u64 = u64::MAX;

/// A part of a stream's queue.
#[derive(Debug)]
pub(super) enum Chunk {
    /// That many bytes of the stream's own buffer.
    Small(usize),
    /// Bytes in a caller's memory.
    Shared(Bytes),
}

impl Chunk {
    fn into_shared(self) -> Option<Bytes> {
        match self {
            Self::Small(_) => None,
            Self::Shared(bytes) => Some(bytes),
        }
    }
}

/// How this side of the stream ends after its queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum QueueEnd {
    /// It stays open.
    #[default]
    Open,
    /// It ends with the last DATA frame.
    Data,
    /// It ends with these trailers, encoded without references to the dynamic table.
    Trailers(Vec<u8>),
}

/// The state of a stream. Section 5.1 draws one diagram for both sides; here each side has a flag:
///
/// ```text
///                 remote_ended   local_ended
/// open                 –              –
/// half-closed (remote) yes            –
/// half-closed (local)  –              yes
/// closed               yes            yes      the slot is free again
/// ```
#[derive(Debug, Default)]
pub(super) struct OpenStream {
    /// The stream id, or 0 if the slot is free.
    pub(super) id: u32,
    /// Whether the peer has ended its side.
    pub(super) remote_ended: bool,
    /// Whether our last frame is written; until then `ending` tells whether it is queued.
    pub(super) local_ended: bool,
    /// Whether the peer's final HEADERS have arrived.
    pub(super) has_head: bool,
    /// Whether it was reset and its slot is kept until the caller lets it go.
    pub(super) is_gone: bool,
    /// Whether it is queued for sending.
    pub(super) is_in_line: bool,
    /// Whether the caller waits for `Writable`.
    pub(super) wants_writable: bool,
    /// Bytes of the content-length that have not arrived.
    pub(super) content_left: u64,
    pub(super) window: Window,
    /// Bytes that the peer accepts; negative if SETTINGS made it so (section 6.9.2).
    pub(super) credit: i64,
    /// Since when no data was sent, or too few, or when some was queued on an empty queue; perhaps [`AT_NEXT_LOOK`](crate::stamp::AT_NEXT_LOOK).
    pub(super) touched: Duration,
    /// The moment at which its head arrived, as `rates::moment` counts it.
    pub(super) came: u32,
    /// The position of the output when it was opened.
    pub(super) opened_at: u64,
    chunks: VecDeque<Chunk>,
    small: Vec<u8>,
    small_sent: usize,
    /// Number of bytes in `chunks`.
    queued: usize,
    pub(super) ending: QueueEnd,
    /// The slot freed before this one, if this one is free.
    next_free: Option<u32>,
}

impl OpenStream {
    /// Opens a stream in a free slot, whose buffers are reused, and returns the slot freed before it.
    #[inline]
    pub(super) fn open(&mut self, id: u32, window: u32, credit: i64) -> Option<u32> {
        self.id = id;
        (self.remote_ended, self.local_ended, self.has_head) = (false, false, false);
        (self.is_gone, self.wants_writable) = (false, false);
        self.content_left = ANY_LENGTH;
        self.window = Window::new(window);
        self.credit = credit;
        self.next_free
    }

    /// Drops the queue as [`clear_queue`](Self::clear_queue) does, and frees the slot, before which
    /// `next_free` was freed.
    #[inline]
    pub(super) fn clear(&mut self, discarded: &mut Vec<Bytes>, next_free: Option<u32>) {
        (self.id, self.next_free) = (0, next_free);
        if self.queued > 0 || self.ending != QueueEnd::Open || !self.small.is_empty() {
            self.clear_queue(discarded);
        }
    }

    /// Drops the queue: callers' memory goes to `discarded`. Buffers are kept up to a limit.
    #[cold]
    pub(super) fn clear_queue(&mut self, discarded: &mut Vec<Bytes>) {
        discarded.extend(self.chunks.drain(..).filter_map(Chunk::into_shared));
        self.chunks.shrink_to(HTTP2_CHUNKS_KEPT);
        self.small.clear();
        self.small.shrink_to(HTTP2_SMALL_KEPT);
        (self.small_sent, self.queued, self.ending) = (0, 0, QueueEnd::Open);
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.remote_ended && self.local_ended
    }

    /// Bytes that are queued.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Memory that the queue holds: its bytes, the trailers behind them, and what a stream takes that waits.
    #[inline]
    pub(super) fn held(&self) -> usize {
        let trailers = match &self.ending {
            QueueEnd::Trailers(block) => block.len(),
            QueueEnd::Open | QueueEnd::Data => 0,
        };
        if self.queued > 0 { self.queued + trailers + HTTP2_QUEUED_COST } else { 0 }
    }

    /// Whether the caller may still send.
    #[inline]
    pub(super) fn can_send(&self) -> bool {
        !self.local_ended && self.ending == QueueEnd::Open && !self.is_gone
    }

    pub(super) fn push_small(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.small.extend_from_slice(bytes);
        self.queued += bytes.len();
        match self.chunks.back_mut() {
            Some(Chunk::Small(len)) => *len += bytes.len(),
            _ => self.chunks.push_back(Chunk::Small(bytes.len())),
        }
    }

    pub(super) fn push_shared(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len();
            self.chunks.push_back(Chunk::Shared(bytes));
        }
    }

    /// Takes up to `len` bytes off the front of the queue, from the stream's own buffer or from a
    /// caller's memory.
    pub(super) fn take(&mut self, len: usize) -> Option<Outgoing<'_>> {
        match self.chunks.front_mut()? {
            Chunk::Small(left) => {
                let len = len.min(*left);
                *left -= len;
                if *left == 0 {
                    self.chunks.pop_front();
                }
                let start = self.small_sent;
                self.small_sent += len;
                self.queued -= len;
                Some(Outgoing::Copy(&self.small[start..start + len]))
            }
            Chunk::Shared(bytes) => {
                let part = bytes.split_to(len.min(bytes.len()));
                if bytes.is_empty() {
                    self.chunks.pop_front();
                }
                self.queued -= part.len();
                Some(Outgoing::Shared(part))
            }
        }
    }

    /// Reclaims the sent front of the stream's buffer once it is all or most of it.
    pub(super) fn compact(&mut self) {
        if self.small_sent == self.small.len() {
            self.small.clear();
            self.small_sent = 0;
        } else if self.small_sent * 2 > self.small.len() {
            self.small.drain(..self.small_sent);
            self.small_sent = 0;
        }
    }
}
