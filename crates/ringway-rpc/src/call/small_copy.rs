//! Small messages that outlive the receive buffer.
//!
//! They are copied one after another into a chunk of the thread, so that they need no allocation
//! each. A message keeps its whole chunk alive, so chunks are small.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use ringway_wire::native::Piece;

use crate::limits;

thread_local! {
    /// The unused rest of the thread's last chunk.
    static CHUNK: RefCell<BytesMut> = RefCell::new(BytesMut::new());
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
    let copied = CHUNK.try_with(|chunk| {
        let mut chunk = chunk.borrow_mut();
        if chunk.capacity() < bytes.len() {
            // `BytesMut` reuses the chunk if all of its messages were dropped.
            chunk.reserve(limits::SMALL_COPY_CHUNK_BYTES);
        }
        chunk.extend_from_slice(bytes);
        chunk.split().freeze()
    });
    copied.unwrap_or_else(|_thread_ends| Bytes::copy_from_slice(bytes))
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
    fn owned_bytes_are_not_copied() {
        let owned = Bytes::from(vec![7; 10]);
        assert_eq!(keep(Piece::Owned(owned.clone())).as_ptr(), owned.as_ptr());
    }
}
