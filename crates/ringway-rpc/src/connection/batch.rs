//! Messages of one stream between a connection and the stream's reader.
//!
//! Small messages are stored one after another in a chunk, so that they need no allocation each.
//! The connection fills one batch while the reader uses another; then the two are exchanged with
//! their memory.

#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use ringway_wire::native::Piece;

use crate::call::codec::{self, Codec};
use crate::call::status::Status;
use crate::limits;

/// Messages in order.
#[derive(Default)]
pub(crate) struct Batch {
    /// The length of each message in `chunk`, or `WHOLE` for one in `whole`.
    lengths: VecDeque<u32>,
    chunk: BytesMut,
    whole: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the chunk has held more bytes than are kept.
    is_burst: bool,
    /// Whether the chunk is larger than that of a spare batch may be.
    has_grown: bool,
}

thread_local! {
    /// Memory of ended streams: most streams are short and then allocate none.
    static SPARE: RefCell<Vec<Batch>> = const { RefCell::new(Vec::new()) };
}

/// Marks a message in `whole`; messages in a chunk are shorter.
const WHOLE: u32 = u32::MAX;

impl Batch {
    /// Takes the memory of an ended stream, if there is any, for a batch that has none.
    #[cold]
    fn take_spare(&mut self) {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        *self = spare.unwrap_or_default();
    }

    /// Drops unread messages, and keeps the memory for another stream if it is small.
    pub(crate) fn recycle(mut self) {
        let room = self.lengths.capacity();
        if self.has_grown || room == 0 || room > limits::SPARE_BATCH_MESSAGES_MAX {
            return;
        }
        self.lengths.clear();
        self.chunk.clear();
        self.whole = VecDeque::new();
        (self.bytes, self.is_burst) = (0, false);
        // While the thread ends, its list may be gone already; then the batch is dropped.
        let _kept = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < limits::SPARE_BATCHES_MAX {
                spare.push(self);
            }
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the number of messages.
    pub(crate) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the bytes of all messages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn push(&mut self, message: Piece<'_>) {
        if self.lengths.capacity() == 0 {
            self.take_spare();
        }
        self.bytes += message.len();
        let copied_max = match &message {
            Piece::Borrowed(_) => limits::STREAM_BORROWED_COPIED_MAX,
            Piece::Owned(_) => limits::STREAM_OWNED_COPIED_MAX,
        };
        if message.len() > copied_max {
            self.whole.push_back(message.into_bytes());
            self.lengths.push_back(WHOLE);
            return;
        }
        if self.chunk.capacity() - self.chunk.len() < message.len() {
            self.make_room(message.len());
        }
        self.chunk.extend_from_slice(&message);
        self.lengths.push_back(message.len() as u32);
    }

    /// Reuses the chunk if its messages are gone, or grows it by as much as it already holds, so
    /// that a quiet stream stays small.
    #[cold]
    fn make_room(&mut self, len: usize) {
        if !self.chunk.try_reclaim(len) {
            let more = self.chunk.len().max(limits::STREAM_CHUNK_BYTES_MIN).max(len);
            self.has_grown |= self.chunk.len() + more > limits::SPARE_BATCH_BYTES_MAX;
            self.chunk.reserve(more);
        }
    }

    /// Returns the length of the next message.
    #[inline]
    pub(crate) fn next_len(&self) -> Option<usize> {
        match *self.lengths.front()? {
            WHOLE => self.whole.front().map(Bytes::len),
            len => Some(len as usize),
        }
    }

    /// Removes the length of the next message, which is `len`, if [`take_raw`](Self::take_raw) is to
    /// follow: if the message is in the chunk, and is read as the bytes that it is.
    #[inline]
    pub(crate) fn begin_raw<T: 'static>(&mut self, len: usize, codec: &Codec<T>) -> bool {
        let is_raw = codec.id == codec::RAW
            && TypeId::of::<T>() == TypeId::of::<Bytes>()
            && self.lengths.front() != Some(&WHOLE);
        if is_raw {
            self.bytes -= len;
            self.lengths.pop_front();
        }
        is_raw
    }

    /// Removes the bytes of a message, whose length has been removed before. They may outlive the
    /// batch, so they share its memory.
    #[inline]
    pub(crate) fn take_raw<T: 'static>(&mut self, len: usize) -> T {
        as_it_is(self.chunk.split_to(len).freeze())
    }

    /// Removes and decodes the next message, whose length is `len`.
    #[inline]
    pub(crate) fn decode_next<T: 'static>(
        &mut self,
        len: usize,
        codec: &Codec<T>,
    ) -> Result<T, Status> {
        self.bytes -= len;
        if self.lengths.pop_front() == Some(WHOLE) {
            let message = self.whole.pop_front().expect("one for each mark");
            return (codec.decode)(Piece::Owned(message));
        }
        let first = First { chunk: &mut self.chunk, len };
        (codec.decode)(Piece::Borrowed(&first.chunk[..len]))
    }

    /// Exchanges all messages for a batch without messages.
    #[inline]
    pub(crate) fn exchange(&mut self, used_up: &mut Self) {
        debug_assert!(used_up.is_empty());
        if used_up.is_burst {
            *used_up = Self::default();
        }
        self.is_burst = self.chunk.len() > limits::STREAM_CHUNK_BYTES_KEPT;
        std::mem::swap(self, used_up);
    }
}

/// The first message of a chunk. Dropping this removes it, also when its decoder panics.
struct First<'a> {
    chunk: &'a mut BytesMut,
    len: usize,
}

impl Drop for First<'_> {
    #[inline]
    fn drop(&mut self) {
        self.chunk.advance(self.len);
    }
}

/// Returns the message itself as a `T`, which is `Bytes`.
#[inline(always)]
fn as_it_is<T: 'static>(message: Bytes) -> T {
    let mut message = Some(message);
    let message = (&mut message as &mut dyn Any).downcast_mut::<Option<T>>();
    message.and_then(Option::take).expect("the type was compared")
}
