//! Received bytes, borrowed from the runtime.

use std::fmt;
use std::ops::{Deref, RangeBounds};
use std::rc::Rc;

use crate::sys::Pool;

/// Received bytes in a buffer of the runtime: no copy was made, and dropping the view gives the
/// buffer back.
///
/// A view is for handling, not for keeping: each one pins a whole receive buffer of its core, and
/// a connection that holds many is paused. Copy what has to live longer.
pub struct View {
    pool: Rc<Pool>,
    id: u16,
    offset: u32,
    len: u32,
}

impl View {
    /// Takes over one count of buffer `id`.
    pub(crate) fn new(pool: Rc<Pool>, id: u16, len: u32) -> Self {
        Self { pool, id, offset: 0, len }
    }

    /// A further view of a part of these bytes; the buffer goes back with the last view of it.
    ///
    /// # Panics
    /// If the range is not within the view.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View {
        let start = match range.start_bound() {
            std::ops::Bound::Included(&at) => at,
            std::ops::Bound::Excluded(&at) => at + 1,
            std::ops::Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            std::ops::Bound::Included(&at) => at + 1,
            std::ops::Bound::Excluded(&at) => at,
            std::ops::Bound::Unbounded => self.len(),
        };
        assert!(start <= end && end <= self.len(), "range {start}..{end} of {} bytes", self.len);
        self.pool.retain(self.id);
        View {
            pool: Rc::clone(&self.pool),
            id: self.id,
            offset: self.offset + start as u32,
            len: (end - start) as u32,
        }
    }

    /// Leaves out the first `count` bytes of this view.
    ///
    /// # Panics
    /// If the view is shorter.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "cannot advance {count} bytes in a view of {}", self.len);
        self.offset += count as u32;
        self.len -= count as u32;
    }
}

impl Deref for View {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.pool.bytes(self.id, self.offset, self.len)
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for View {
    #[inline]
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}
