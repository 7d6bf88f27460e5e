//! Memory for large messages that is reused while it is in the cache.
//!
//! A received message is handed out as [`Bytes`], which may be dropped on any thread. Its memory,
//! if large, then goes to a pool of that thread instead of the allocator, and the next large
//! message of any connection there gets the memory used last.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

use crate::limits::{
    NATIVE_REUSED_MAX, NATIVE_SPARE_BYTES, NATIVE_SPARE_LEN_MIN, NATIVE_SPARES_MAX,
};

thread_local! {
    static SPARES: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// Takes empty memory for `len` bytes; `None` if that size should be allocated exactly.
pub(super) fn take(len: usize) -> Option<BytesMut> {
    if !(NATIVE_SPARE_LEN_MIN..=NATIVE_SPARE_BYTES).contains(&len) {
        return None;
    }
    let spare = SPARES.try_with(|spares| spares.borrow_mut().pop()).ok().flatten();
    Some(spare.unwrap_or_else(|| BytesMut::with_capacity(NATIVE_SPARE_BYTES)))
}

/// Takes all bytes out of `bytes`; memory from [`take`] returns to the pool later.
pub(super) fn freeze(bytes: &mut BytesMut) -> Bytes {
    match bytes.capacity() {
        NATIVE_SPARE_BYTES => Bytes::from_owner(Lent(std::mem::take(bytes))),
        // Small memory is reused once nobody reads it. Large memory is not kept here.
        ..=NATIVE_REUSED_MAX => bytes.split().freeze(),
        _ => std::mem::take(bytes).freeze(),
    }
}

/// Copies `bytes`, into pooled memory if they are many.
#[inline]
pub(super) fn copy(bytes: &[u8]) -> Bytes {
    if bytes.len() < NATIVE_SPARE_LEN_MIN {
        return Bytes::copy_from_slice(bytes);
    }
    copy_large(bytes)
}

#[inline(never)]
fn copy_large(bytes: &[u8]) -> Bytes {
    let Some(mut copy) = take(bytes.len()) else {
        return Bytes::copy_from_slice(bytes);
    };
    copy.extend_from_slice(bytes);
    freeze(&mut copy)
}

/// Pooled memory with a reader.
struct Lent(BytesMut);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        memory.clear();
        // When the thread has ended, the allocator gets the memory.
        let _kept = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            if spares.len() < NATIVE_SPARES_MAX {
                spares.push(memory);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spares() -> usize {
        SPARES.with(|spares| spares.borrow().len())
    }

    #[test]
    fn memory_of_large_messages_is_reused_up_to_a_limit() {
        let message = vec![7; NATIVE_SPARE_LEN_MIN];
        let first = copy(&message);
        let memory = first.as_ptr();
        let part = first.slice(1..);
        drop(first);
        assert_eq!(spares(), 0, "a part of it is still read");
        assert_eq!(part, message[1..]);
        drop(part);
        assert_eq!(spares(), 1);
        let second = copy(&message);
        assert_eq!((second.as_ptr(), spares()), (memory, 0));
        let many: Vec<_> = (0..2 * NATIVE_SPARES_MAX).map(|_| copy(&message)).collect();
        drop(many);
        assert_eq!(spares(), NATIVE_SPARES_MAX);
    }

    #[test]
    fn other_sizes_are_allocated_exactly() {
        for len in [0, 1, NATIVE_SPARE_LEN_MIN - 1, NATIVE_SPARE_BYTES + 1] {
            assert!(take(len).is_none(), "{len} bytes");
            drop(copy(&vec![7; len]));
        }
        assert_eq!(spares(), 0);
    }
}
