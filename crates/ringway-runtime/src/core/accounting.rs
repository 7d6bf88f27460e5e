//! How much memory the bytes of a core's sockets keep in use.

use std::cell::Cell;

/// Counts the memory of all inboxes and outboxes of a core, whole receive buffers included.
///
/// A socket tells it of each change, so that it is known without a search whether the core holds
/// more than it may. Then whoever holds more than its share goes first: see `StreamState`.
pub(crate) struct Held {
    bytes: Cell<usize>,
    max: usize,
}

impl Held {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: Cell::new(0), max }
    }

    /// A socket holds `now` instead of `before`.
    #[inline]
    pub(crate) fn change(&self, before: usize, now: usize) {
        self.bytes.set(self.bytes.get().wrapping_add(now).wrapping_sub(before));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether more is held than the core may.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.bytes.get() > self.max
    }
}
