//! Views of received bytes in buffers of the runtime.

use std::fmt;
use std::ops::{Bound, Deref, RangeBounds};
use std::rc::Rc;

use bytes::Bytes;

use crate::limits;
use crate::sys::{Pool, RecvBuf, SharedBytes};

/// Received bytes in a buffer of the runtime. They were not copied, and dropping the view returns
/// the buffer.
///
/// Use a view to handle bytes, not to keep them: each one pins a whole receive buffer of its core,
/// and a connection that holds many is paused. Copy what has to live longer.
pub struct View {
    home: Home,
    offset: u32,
    len: u32,
}

enum Home {
    /// A reference to a buffer of a receive pool.
    Pool(Rc<Pool>, u16),
    /// Memory of the view's own.
    Heap(Rc<Vec<u8>>),
}

impl View {
    /// Views the first `len` bytes of a lent buffer that was filled.
    #[inline]
    pub(crate) fn of_lent(pool: Rc<Pool>, id: u16, len: usize) -> Self {
        pool.view_lent(id);
        let len = len.min(pool.buffer_bytes()) as u32;
        Self { home: Home::Pool(pool, id), offset: 0, len }
    }

    /// Views the first `len` bytes of a buffer that this thread has filled.
    pub(crate) fn filled(buffer: RecvBuf, len: usize) -> Self {
        let (pool, id) = buffer.into_lent();
        Self::of_lent(pool, id, len)
    }

    /// Copies `bytes` into a view that pins no receive buffer.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self::from(bytes.to_vec())
    }

    /// Whether the pool's buffers are running out, so that these bytes should be copied instead of
    /// held.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        match &self.home {
            Home::Pool(pool, _) => pool.lacks(limits::FREE_BUFFERS_LOW_PART),
            Home::Heap(_) => false,
        }
    }

    /// Whether these bytes are few compared with the receive buffer that they pin.
    #[inline]
    pub(crate) fn is_wasteful(&self) -> bool {
        match &self.home {
            Home::Pool(pool, _) => self.len() < pool.buffer_bytes() / limits::SHARED_PART_MIN,
            Home::Heap(_) => false,
        }
    }

    /// Memory, in bytes, that this view keeps in use: a whole receive buffer, or memory of its own.
    #[inline]
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.home {
            Home::Pool(pool, _) => pool.buffer_bytes(),
            Home::Heap(_) => self.len(),
        }
    }

    /// Whether both views pin the same receive buffer.
    pub(crate) fn shares_buffer(&self, other: &View) -> bool {
        match (&self.home, &other.home) {
            (Home::Pool(pool, id), Home::Pool(others, other)) => {
                id == other && Rc::ptr_eq(pool, others)
            }
            _ => false,
        }
    }

    /// Returns these bytes, copied if the pool's buffers are running out.
    #[inline]
    pub(crate) fn spared(self) -> View {
        if self.is_scarce() { View::copied(&self) } else { self }
    }

    /// Number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a copy of `bytes` if this view has unshared memory of its own that stays within the
    /// limit of copies.
    pub(crate) fn extend_copy(&mut self, bytes: &[u8]) -> bool {
        let Home::Heap(memory) = &mut self.home else {
            return false;
        };
        let Some(memory) = Rc::get_mut(memory) else {
            return false;
        };
        let ends_here = self.offset as usize + self.len as usize == memory.len();
        if !ends_here || memory.len() + bytes.len() > limits::COPIED_VIEW_BYTES {
            return false;
        }
        memory.extend_from_slice(bytes);
        self.len += bytes.len() as u32;
        true
    }

    /// Another view of a part of these bytes; the buffer returns with the last view of it.
    ///
    /// # Panics
    /// If the range is not within the view.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View {
        let (start, end) = self.bounds(range);
        let home = match &self.home {
            Home::Pool(pool, id) => {
                pool.retain(*id);
                Home::Pool(Rc::clone(pool), *id)
            }
            Home::Heap(memory) => Home::Heap(Rc::clone(memory)),
        };
        View { home, offset: self.offset + start as u32, len: (end - start) as u32 }
    }

    /// The start and the end of `range`.
    fn bounds(&self, range: impl RangeBounds<usize>) -> (usize, usize) {
        let start = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => at.saturating_add(1),
            Bound::Excluded(&at) => at,
            Bound::Unbounded => self.len(),
        };
        assert!(start <= end && end <= self.len(), "range {start}..{end} of {} bytes", self.len);
        (start, end)
    }

    /// Shares `range` as bytes that can be kept on any thread without a copy: they pin their
    /// receive buffer until the last of them is dropped. `None` if a copy is better: the part is
    /// small compared with the buffer, half of the core's buffers are pinned, or the view has no
    /// receive buffer.
    ///
    /// ```
    /// # use ringway_runtime::View;
    /// let view = View::from(b"not received".to_vec());
    /// assert!(view.share(4..).is_none());
    /// ```
    ///
    /// # Panics
    /// If the range is not within the view.
    #[must_use]
    pub fn share(&self, range: impl RangeBounds<usize>) -> Option<Bytes> {
        let (start, end) = self.bounds(range);
        let Home::Pool(pool, id) = &self.home else { return None };
        let is_worth_it = end - start >= pool.buffer_bytes() / limits::SHARED_PART_MIN;
        if !is_worth_it || pool.lacks(2) {
            return None;
        }
        let shared = SharedBytes::of(pool, *id, self.offset + start as u32, end - start);
        Some(Bytes::from_owner(shared))
    }

    /// Removes the first `count` bytes from this view.
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
        match &self.home {
            Home::Pool(pool, id) => pool.bytes(*id, self.offset, self.len),
            Home::Heap(memory) => &memory[self.offset as usize..][..self.len as usize],
        }
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Makes a view with memory of its own, for bytes that did not come from a socket unchanged
/// (decrypted or decompressed ones).
///
/// # Panics
/// If there are 4 GiB or more.
impl From<Vec<u8>> for View {
    fn from(bytes: Vec<u8>) -> Self {
        let len = u32::try_from(bytes.len()).expect("a view holds less than 4 GiB");
        View { home: Home::Heap(Rc::new(bytes)), offset: 0, len }
    }
}

impl Drop for View {
    #[inline]
    fn drop(&mut self) {
        if let Home::Pool(pool, id) = &self.home {
            pool.release(*id);
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests;
