//! One stream: its state, its windows and what it has to send (RFC 9113, sections 5.1 and 5.2).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::{HTTP2_CHUNKS_KEPT, HTTP2_SMALL_KEPT};
use crate::native::{Outgoing, Window};

/// No content-length was given.
pub(super) const ANY_LENGTH: u64 = u64::MAX;

/// Something that waits to be sent.
#[derive(Debug)]
pub(super) enum Chunk {
    /// So many bytes of the stream's own buffer.
    Small(usize),
    /// A caller's memory.
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

/// How a stream's own side ends behind what waits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum QueueEnd {
    /// Not yet.
    #[default]
    Open,
    /// With the last DATA.
    Data,
    /// With trailers, whose block depends on no table.
    Trailers(Vec<u8>),
}

/// The state of a stream. The diagram of section 5.1 has both sides in one; here each has its bit:
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
    /// 0 when the slot is free.
    pub(super) id: u32,
    /// The peer sends nothing more.
    pub(super) remote_ended: bool,
    /// The last frame of ours is written; until then `ending` says whether it waits.
    pub(super) local_ended: bool,
    /// The final HEADERS of the peer have come.
    pub(super) has_head: bool,
    /// It was reset, and its slot is kept until the caller has let it go.
    pub(super) is_gone: bool,
    /// It stands in the line of those that send.
    pub(super) is_in_line: bool,
    /// The caller waits for room.
    pub(super) wants_writable: bool,
    /// Bytes of its content-length that have not come.
    pub(super) content_left: u64,
    pub(super) window: Window,
    /// Bytes that the peer takes; below 0 when a setting made it so (section 6.9.2).
    pub(super) credit: i64,
    /// When data was last sent, or began to wait.
    pub(super) touched: Duration,
    /// The moment at which its head came.
    pub(super) came: u32,
    /// Where the output was when it was opened.
    pub(super) opened_at: u64,
    chunks: VecDeque<Chunk>,
    small: Vec<u8>,
    small_sent: usize,
    /// Bytes in `chunks`.
    queued: usize,
    pub(super) ending: QueueEnd,
}

impl OpenStream {
    /// Makes a free slot a stream. Buffers of the last one are kept.
    #[inline]
    pub(super) fn open(&mut self, id: u32, window: u32, credit: i64) {
        self.id = id;
        (self.remote_ended, self.local_ended, self.has_head) = (false, false, false);
        (self.is_gone, self.wants_writable) = (false, false);
        self.content_left = ANY_LENGTH;
        self.window = Window::new(window);
        self.credit = credit;
    }

    /// Lets go what waits, as [`clear_queue`](Self::clear_queue), and buffers that a burst has left.
    #[inline]
    pub(super) fn clear(&mut self, discarded: &mut Vec<Bytes>) {
        self.id = 0;
        if self.queued > 0 || self.ending != QueueEnd::Open || !self.small.is_empty() {
            self.clear_queue(discarded);
        }
    }

    /// Gives up what waits: callers' memory goes to `discarded`.
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

    /// Bytes that wait to be sent.
    #[inline]
    pub(super) fn queued(&self) -> usize {
        self.queued
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

    /// Takes up to `len` bytes off the front of what waits: of the stream's own buffer or of a
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

    /// Gives the front of the stream's buffer back when all or most of it was sent.
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
