//! Handles of streams.

use std::fmt;

/// A stream of one connection: its id on the wire, and the slot that holds its state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamHandle {
    pub(super) id: u32,
    pub(super) slot: u32,
}

impl StreamHandle {
    /// The id on the wire. They only grow.
    #[inline]
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// A dense number below the highest count of streams at a time, to index a table of the
    /// caller's. It is used again when the stream has ended.
    #[inline]
    #[must_use]
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

impl fmt::Display for StreamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.id)
    }
}

impl fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.slot)
    }
}
