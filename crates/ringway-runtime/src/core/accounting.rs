//! The memory that the sockets of a core hold.

use std::cell::Cell;

/// Memory held by all inboxes and outboxes of a core, whole receive buffers included.
///
/// Sockets report each change, so the sum is always known. When the core is over its limit, the
/// sockets that hold more than their share give way first: see `StreamState`.
pub(crate) struct Held {
    bytes: Cell<usize>,
    max: usize,
}

impl Held {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: Cell::new(0), max }
    }

    /// Records that a socket holds `now` bytes instead of `before`.
    #[inline]
    pub(crate) fn change(&self, before: usize, now: usize) {
        self.bytes.set(self.bytes.get().wrapping_add(now).wrapping_sub(before));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether the core holds more than its limit.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.bytes.get() > self.max
    }
}
