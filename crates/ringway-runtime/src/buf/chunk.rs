//! Pooled memory for copies of bytes to send.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;

use crate::limits;

/// A core's spare send chunks, last-in first-out.
#[derive(Clone, Default)]
pub(crate) struct ChunkPool {
    spare: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl ChunkPool {
    /// Takes an empty chunk with room for [`limits::SEND_CHUNK_BYTES`].
    pub(crate) fn take(&self) -> Chunk {
        let bytes = self.spare.borrow_mut().pop();
        let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(limits::SEND_CHUNK_BYTES));
        Chunk { bytes, home: self.clone() }
    }
}

/// Bytes copied for sending; the memory returns to its pool on drop.
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    home: ChunkPool,
}

impl Chunk {
    /// Number of bytes that can be appended without growing.
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Appends as much of `bytes` as fits, and returns how much that was.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.bytes.extend_from_slice(&bytes[..taken]);
        taken
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// A copy of the bytes in memory of their exact size, if the chunk is mostly empty.
    pub(crate) fn exact_copy(&self) -> Option<Bytes> {
        let is_wasteful = self.bytes.len() < limits::SEND_CHUNK_BYTES / limits::SHARED_PART_MIN;
        is_wasteful.then(|| Bytes::copy_from_slice(&self.bytes))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.home.spare.borrow_mut();
        if spare.len() < limits::SPARE_CHUNKS_MAX {
            bytes.clear();
            spare.push(bytes);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.bytes.len())
    }
}
