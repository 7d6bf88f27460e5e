//! Reused memory for sends.

use std::cell::RefCell;

use crate::buf::{Chunk, ChunkPool, Segment};
use crate::limits;

/// The send chunks and segment lists of one core.
#[derive(Default)]
pub(crate) struct SendMemory {
    chunks: ChunkPool,
    /// Empty segment lists for the next batches.
    spare_lists: RefCell<Vec<Vec<Segment>>>,
}

impl SendMemory {
    pub(crate) fn take_chunk(&self) -> Chunk {
        self.chunks.take()
    }

    /// Takes an empty segment list, with the memory of earlier use.
    pub(crate) fn take_list(&self) -> Vec<Segment> {
        self.spare_lists.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(4))
    }

    pub(crate) fn return_list(&self, list: Vec<Segment>) {
        debug_assert!(list.is_empty());
        let mut spare = self.spare_lists.borrow_mut();
        if list.capacity() > 0 && spare.len() < limits::SPARE_LISTS_MAX {
            spare.push(list);
        }
    }
}
