//! A core's receive buffers of one size: contiguous, handed out last-in first-out.

use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::buf::View;
use crate::limits;

/// The receive pools of one core.
#[derive(Clone)]
pub(crate) struct Pools {
    /// Buffers of [`limits::MESSAGE_BUFFER_BYTES`].
    pub(crate) message: Rc<Pool>,
    /// Buffers of [`limits::BULK_BUFFER_BYTES`].
    pub(crate) bulk: Rc<Pool>,
}

impl Pools {
    /// Reserves address space for both; memory is touched only as buffers are used.
    pub(crate) fn new(message_buffers: u16, bulk_buffers: u16) -> io::Result<Self> {
        Ok(Self {
            message: Pool::new(limits::MESSAGE_BUFFER_BYTES, message_buffers)?,
            bulk: Pool::new(limits::BULK_BUFFER_BYTES, bulk_buffers)?,
        })
    }
}

/// Fixed-size buffers in one mapping. The last one freed is the next one used, so a core that is
/// not behind keeps working in the cache lines that it has just touched.
///
/// Each buffer is in exactly one state: free (its id is in `free`), lent (a [`RecvBuf`] or the
/// kernel writes it), or viewed (`views` of it is above zero and nobody writes).
pub(crate) struct Pool {
    area: NonNull<u8>,
    area_bytes: usize,
    buffer_bytes: usize,
    free: RefCell<Vec<u16>>,
    views: Box<[Cell<u32>]>,
}

impl Pool {
    pub(crate) fn new(buffer_bytes: usize, count: u16) -> io::Result<Rc<Self>> {
        let area_bytes = buffer_bytes * usize::from(count.max(1));
        Ok(Rc::new(Self {
            area: map_area(area_bytes)?,
            area_bytes,
            buffer_bytes,
            free: RefCell::new((0..count).rev().collect()),
            views: (0..count).map(|_| Cell::new(0)).collect(),
        }))
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Buffers that are neither lent nor viewed.
    pub(crate) fn free_count(&self) -> usize {
        self.free.borrow().len()
    }

    /// A buffer for this thread to receive into; `None` when all are in use.
    pub(crate) fn take(self: &Rc<Self>) -> Option<RecvBuf> {
        let id = self.lend()?;
        Some(RecvBuf { pool: Some(Rc::clone(self)), id })
    }

    /// Takes a buffer out of the pool to lend it to the kernel by its id.
    pub(crate) fn lend(&self) -> Option<u16> {
        self.free.borrow_mut().pop()
    }

    /// Where a lent buffer lies, for the kernel.
    pub(crate) fn address(&self, id: u16) -> u64 {
        self.pointer(id, 0, self.buffer_bytes).as_ptr() as u64
    }

    /// Takes back a lent buffer whose first `len` bytes the kernel has filled.
    pub(crate) fn view_of_lent(self: &Rc<Self>, id: u16, len: usize) -> View {
        let views = &self.views[usize::from(id)];
        debug_assert_eq!(views.get(), 0, "buffer {id} completed twice");
        views.set(1);
        View::new(Rc::clone(self), id, len.min(self.buffer_bytes) as u32)
    }

    /// Takes back a lent buffer that holds nothing.
    pub(crate) fn return_lent(&self, id: u16) {
        debug_assert_eq!(self.views[usize::from(id)].get(), 0, "buffer {id} returned while viewed");
        self.free.borrow_mut().push(id);
    }

    /// Counts one more view of a viewed buffer.
    pub(crate) fn retain(&self, id: u16) {
        let views = &self.views[usize::from(id)];
        assert!(views.get() > 0, "buffer {id} retained while free");
        views.set(views.get() + 1);
    }

    /// Counts one view less; the last one frees the buffer.
    pub(crate) fn release(&self, id: u16) {
        let views = &self.views[usize::from(id)];
        assert!(views.get() > 0, "buffer {id} returned twice");
        views.set(views.get() - 1);
        if views.get() == 0 {
            self.free.borrow_mut().push(id);
        }
    }

    /// Bytes of a viewed buffer.
    pub(crate) fn bytes(&self, id: u16, offset: u32, len: u32) -> &[u8] {
        assert!(self.views[usize::from(id)].get() > 0, "buffer {id} read while free");
        let start = self.pointer(id, offset as usize, len as usize);
        // SAFETY: `pointer` checked that the range lies inside buffer `id` of the mapping, which
        // lives as long as `self` and was zero-filled by the kernel. The buffer is viewed, so
        // neither the kernel nor a `RecvBuf` writes it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) }
    }

    fn pointer(&self, id: u16, offset: usize, len: usize) -> NonNull<u8> {
        assert!(usize::from(id) < self.views.len() && offset + len <= self.buffer_bytes);
        // SAFETY: the assertion keeps the offset inside the mapping of
        // `views.len() * buffer_bytes` bytes.
        unsafe { self.area.add(usize::from(id) * self.buffer_bytes + offset) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map_area` with this length; every view and every lent
        // buffer holds an `Rc` of the pool, or is owned by a driver that does, so none is left.
        let unmapped = unsafe { munmap(self.area.as_ptr().cast(), self.area_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A buffer that this thread fills; becomes a [`View`], or goes back when dropped.
pub(crate) struct RecvBuf {
    /// `None` only after `freeze`.
    pool: Option<Rc<Pool>>,
    id: u16,
}

impl RecvBuf {
    /// The whole buffer; what it holds from earlier use is unspecified.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        let pool = self.pool.as_ref().expect("present until freeze");
        let start = pool.pointer(self.id, 0, pool.buffer_bytes);
        // SAFETY: the buffer is lent to this `RecvBuf` alone, borrowed mutably for the slice's
        // life; the range was checked by `pointer`.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), pool.buffer_bytes) }
    }

    /// A view of the first `len` bytes.
    pub(crate) fn freeze(mut self, len: usize) -> View {
        let pool = self.pool.take().expect("present until freeze");
        pool.view_of_lent(self.id, len)
    }
}

impl Drop for RecvBuf {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.return_lent(self.id);
        }
    }
}

/// Reserves zero-filled memory that huge pages may back: scattered small pages miss the TLB.
fn map_area(bytes: usize) -> io::Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let area = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    // SAFETY: the range is the mapping made above; the advice changes no contents. A child of
    // fork must not see memory that the kernel writes.
    let _advice_is_optional = unsafe { madvise(area, bytes, Advice::LinuxDontFork) };
    NonNull::new(area.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
