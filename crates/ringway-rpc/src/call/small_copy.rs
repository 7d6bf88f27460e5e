//! Small messages that outlive the receive buffer.
//!
//! They are copied one after another into a chunk of the thread, so that they need no allocation
//! each. A message keeps its whole chunk alive, so chunks are small.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;

use bytes::{Bytes, BytesMut};
use ringway_wire::native::Piece;

use crate::limits;

thread_local! {
    static CHUNKS: RefCell<Chunks> = RefCell::default();
}

/// The chunks of a thread.
#[derive(Default)]
struct Chunks {
    /// The unused rest of the last chunk.
    rest: BytesMut,
    /// Chunks that are full, oldest first. While calls overlap, some message of the last chunk is
    /// always alive, but one of these is free again.
    full: VecDeque<BytesMut>,
}

/// Returns the bytes of a message, copied if they are borrowed.
#[inline]
pub(crate) fn keep(message: Piece<'_>) -> Bytes {
    match message {
        Piece::Borrowed(bytes) if bytes.len() <= limits::SMALL_COPY_BYTES_MAX => {
            copy_to_chunk(bytes)
        }
        message => message.into_bytes(),
    }
}

#[inline]
fn copy_to_chunk(bytes: &[u8]) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    let copied = CHUNKS.try_with(|chunks| {
        let mut chunks = chunks.borrow_mut();
        if chunks.rest.capacity() < bytes.len() {
            chunks.next();
        }
        chunks.rest.extend_from_slice(bytes);
        chunks.rest.split().freeze()
    });
    copied.unwrap_or_else(|_thread_ends| Bytes::copy_from_slice(bytes))
}

impl Chunks {
    /// Goes on to a chunk of which no message is left, or to a new one.
    #[cold]
    fn next(&mut self) {
        self.full.push_back(mem::take(&mut self.rest));
        for _ in 0..self.full.len() {
            let Some(mut chunk) = self.full.pop_front() else { break };
            if chunk.try_reclaim(limits::SMALL_COPY_CHUNK_BYTES) {
                self.rest = chunk;
                return;
            }
            self.full.push_back(chunk);
        }
        if self.full.len() > limits::SMALL_COPY_CHUNKS_KEPT {
            self.full.pop_front();
        }
        self.rest = BytesMut::with_capacity(limits::SMALL_COPY_CHUNK_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep_copy(bytes: &[u8]) -> Bytes {
        keep(Piece::Borrowed(bytes))
    }

    #[test]
    fn messages_are_adjacent_and_keep_their_contents() {
        let messages: Vec<Vec<u8>> = (0..1_000_usize)
            .map(|i| vec![i as u8; i % (limits::SMALL_COPY_BYTES_MAX + 2)])
            .collect();
        let kept: Vec<Bytes> = messages.iter().map(|message| keep_copy(message)).collect();
        assert_eq!(kept, messages);
        let (first, second) = (keep_copy(b"a"), keep_copy(b"b"));
        assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 1);
    }

    #[test]
    fn chunks_are_reused_once_their_messages_are_dropped() {
        let message = [7; limits::SMALL_COPY_BYTES_MAX];
        let addresses: std::collections::HashSet<_> = (0..100 * limits::SMALL_COPY_CHUNK_BYTES
            / message.len())
            .map(|_| keep_copy(&message).as_ptr())
            .collect();
        assert!(addresses.len() <= 2 * limits::SMALL_COPY_CHUNK_BYTES / message.len());
    }

    #[test]
    fn chunks_are_reused_while_messages_overlap() {
        let message = [7; 47];
        let (mut alive, mut chunks) = (VecDeque::new(), std::collections::HashSet::new());
        for _ in 0..10_000 {
            let kept = keep_copy(&message);
            chunks.insert(kept.as_ptr());
            alive.push_back(kept);
            if alive.len() > 100 {
                alive.pop_front();
            }
        }
        // A hundred messages stand in two chunks or three, and one more is being filled.
        let in_chunk = limits::SMALL_COPY_CHUNK_BYTES / message.len();
        assert!(chunks.len() <= 4 * in_chunk, "{} places", chunks.len());
    }

    #[test]
    fn owned_bytes_are_not_copied() {
        let owned = Bytes::from(vec![7; 10]);
        assert_eq!(keep(Piece::Owned(owned.clone())).as_ptr(), owned.as_ptr());
    }
}
