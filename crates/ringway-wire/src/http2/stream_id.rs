//! Handles of streams.

use std::fmt;

/// A stream of one connection: its id on the wire, and the slot that holds its state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamHandle {
    pub(super) id: u32,
    pub(super) slot: u32,
}

impl StreamHandle {
    /// The stream id on the wire; ids only grow.
    #[inline]
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// A dense index below the largest number of concurrent streams, for tables of the caller. It
    /// is reused after the stream has ended.
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
