//! A core's receive buffers of one size: contiguous, handed out last-in first-out.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::area::Area;

/// Fixed-size buffers in one mapping. The one freed last is the first one reused, so a core that
/// keeps up works in the cache lines that it has just touched.
///
/// Each buffer is in exactly one state: free (its id is in `free`), lent (a [`RecvBuf`] or the
/// kernel writes it; `views` of it is [`LENT`]), or viewed (`views` of it is the count of those who
/// read, and nobody writes). A change that does not fit the state panics: a kernel that fills a
/// buffer twice ends its core rather than write what somebody reads.
pub(crate) struct Pool {
    pub(super) area: Arc<Area>,
    buffer_bytes: usize,
    free: RefCell<Vec<u16>>,
    views: Box<[Cell<u32>]>,
}

/// The value of `views` for a buffer that is being written.
const LENT: u32 = u32::MAX;

impl Pool {
    /// Creates the pool of the calling thread's core, which `eventfd` wakes.
    pub(crate) fn new(
        buffer_bytes: usize,
        count: u16,
        eventfd: &Weak<OwnedFd>,
    ) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            area: Area::new(buffer_bytes * usize::from(count.max(1)), eventfd)?,
            buffer_bytes,
            free: RefCell::new((0..count).rev().collect()),
            views: (0..count).map(|_| Cell::new(0)).collect(),
        }))
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Number of buffers that are neither lent nor viewed.
    pub(crate) fn free_count(&self) -> usize {
        self.free.borrow().len()
    }

    /// Whether fewer than one in `part` buffers are free.
    #[inline]
    pub(crate) fn lacks(&self, part: usize) -> bool {
        self.free_count() < self.views.len() / part
    }

    /// Takes a buffer for this thread to receive into; `None` when all are in use.
    pub(crate) fn take(self: &Rc<Self>) -> Option<RecvBuf> {
        let id = self.lend()?;
        Some(RecvBuf { pool: Some(Rc::clone(self)), id })
    }

    /// Takes a buffer out of the pool to lend it to the kernel by its id.
    pub(crate) fn lend(&self) -> Option<u16> {
        self.reclaim();
        let id = self.free.borrow_mut().pop()?;
        let before = self.views[usize::from(id)].replace(LENT);
        assert_eq!(before, 0, "buffer {id} is free and in use");
        Some(id)
    }

    /// Takes in the buffers that other threads returned.
    pub(crate) fn reclaim(&self) {
        self.area.returns.take().into_iter().for_each(|id| self.release(id));
    }

    /// Makes the next buffer returned by another thread wake the core; `false` if one was returned
    /// already.
    pub(crate) fn await_return(&self) -> bool {
        self.area.returns.await_next()
    }

    /// Whether `area` is this pool's memory.
    pub(super) fn is_of(&self, area: &Arc<Area>) -> bool {
        Arc::ptr_eq(&self.area, area)
    }

    /// The address of a lent buffer, for the kernel.
    pub(crate) fn address(&self, id: u16) -> u64 {
        self.pointer(id, 0, self.buffer_bytes).as_ptr() as u64
    }

    /// Takes back a lent buffer that was filled, for a first view of it.
    pub(crate) fn view_lent(&self, id: u16) {
        let before = self.views[usize::from(id)].replace(1);
        assert_eq!(before, LENT, "buffer {id} was filled without being lent");
    }

    /// Takes back a lent buffer that holds nothing.
    pub(crate) fn return_lent(&self, id: u16) {
        let before = self.views[usize::from(id)].replace(0);
        assert_eq!(before, LENT, "buffer {id} was returned without being lent");
        self.free.borrow_mut().push(id);
    }

    /// Adds one view of a viewed buffer.
    pub(crate) fn retain(&self, id: u16) {
        let views = self.viewed(id);
        views.set(views.get() + 1);
    }

    /// Removes one view; the last one frees the buffer.
    pub(crate) fn release(&self, id: u16) {
        let views = self.viewed(id);
        views.set(views.get() - 1);
        if views.get() == 0 {
            self.free.borrow_mut().push(id);
        }
    }

    /// The bytes of a viewed buffer.
    pub(crate) fn bytes(&self, id: u16, offset: u32, len: u32) -> &[u8] {
        self.viewed(id);
        let start = self.pointer(id, offset as usize, len as usize);
        // SAFETY: `pointer` checked that the range lies inside buffer `id` of the mapping, which
        // lives as long as `self` and was zero-filled by the kernel. The buffer is viewed, so
        // neither the kernel nor a `RecvBuf` writes it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) }
    }

    /// The view count of a buffer that is being read.
    #[inline]
    fn viewed(&self, id: u16) -> &Cell<u32> {
        let views = &self.views[usize::from(id)];
        assert!(!matches!(views.get(), 0 | LENT), "buffer {id} is not viewed");
        views
    }

    fn pointer(&self, id: u16, offset: usize, len: usize) -> NonNull<u8> {
        assert!(usize::from(id) < self.views.len() && offset + len <= self.buffer_bytes);
        self.area.pointer(usize::from(id) * self.buffer_bytes + offset, len)
    }
}

/// A buffer that this thread fills; it becomes a [`View`], or returns to the pool when dropped.
pub(crate) struct RecvBuf {
    /// `None` only after `into_lent`.
    pool: Option<Rc<Pool>>,
    id: u16,
}

impl RecvBuf {
    /// The whole buffer, whose previous contents are unspecified.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let pool = self.pool.as_ref().expect("present until `into_lent`");
        let start = pool.pointer(self.id, 0, pool.buffer_bytes);
        // SAFETY: the buffer is lent to this `RecvBuf` alone, borrowed mutably for the slice's
        // life; the range was checked by `pointer`.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), pool.buffer_bytes) }
    }

    /// The pool and the id of the buffer, which stays lent.
    pub(crate) fn into_lent(mut self) -> (Rc<Pool>, u16) {
        (self.pool.take().expect("present until this call"), self.id)
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.return_lent(self.id);
        }
    }
}
