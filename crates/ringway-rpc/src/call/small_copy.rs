//! Small messages that outlive the bytes in which they came.
//!
//! They stand one after another in a chunk of their thread, so they cost no allocation each. Whoever
//! keeps one keeps its chunk, which is why chunks are small.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use ringway_wire::native::Piece;

use crate::limits;

thread_local! {
    /// What is left of the thread's last chunk.
    static CHUNK: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The bytes of a message, copied if they were borrowed.
#[inline]
pub(crate) fn keep(message: Piece<'_>) -> Bytes {
    match message {
        Piece::Borrowed(bytes) if bytes.len() <= limits::PACKED_BYTES_MAX => pack(bytes),
        message => message.into_bytes(),
    }
}

#[inline]
fn pack(bytes: &[u8]) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    let packed = CHUNK.try_with(|chunk| {
        let mut chunk = chunk.borrow_mut();
        if chunk.capacity() < bytes.len() {
            // The chunk is used anew if all of its messages are gone.
            chunk.reserve(limits::PACKED_CHUNK_BYTES);
        }
        chunk.extend_from_slice(bytes);
        chunk.split().freeze()
    });
    packed.unwrap_or_else(|_thread_ends| Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep_copy(bytes: &[u8]) -> Bytes {
        keep(Piece::Borrowed(bytes))
    }

    #[test]
    fn messages_stand_one_after_another_and_stay_what_they_are() {
        let messages: Vec<Vec<u8>> =
            (0..1_000_usize).map(|i| vec![i as u8; i % (limits::PACKED_BYTES_MAX + 2)]).collect();
        let kept: Vec<Bytes> = messages.iter().map(|message| keep_copy(message)).collect();
        assert_eq!(kept, messages);
        let (first, second) = (keep_copy(b"a"), keep_copy(b"b"));
        assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 1);
    }

    #[test]
    fn memory_is_used_again_once_nobody_holds_a_message() {
        let message = [7; limits::PACKED_BYTES_MAX];
        let places: std::collections::HashSet<_> = (0..100 * limits::PACKED_CHUNK_BYTES
            / message.len())
            .map(|_| keep_copy(&message).as_ptr())
            .collect();
        assert!(places.len() <= 2 * limits::PACKED_CHUNK_BYTES / message.len());
    }

    #[test]
    fn what_is_owned_already_is_not_copied() {
        let owned = Bytes::from(vec![7; 10]);
        assert_eq!(keep(Piece::Owned(owned.clone())).as_ptr(), owned.as_ptr());
    }
}
