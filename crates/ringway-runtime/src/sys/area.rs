//! The memory of a pool, and parts of it that other threads may read.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::buf::returns::{Returns, pool_here};

/// One mapping of memory, unmapped when nobody refers to it any more.
pub(super) struct Area {
    start: NonNull<u8>,
    bytes: usize,
    pub(super) returns: Returns,
}

// SAFETY: the pointer is to memory that the area owns, and is only turned into references by those
// who have a buffer of it: the pool on its own thread, and readers of buffers that nobody writes.
unsafe impl Send for Area {}
// SAFETY: as above; what is changed through a shared reference is `Returns`, which is `Sync`.
unsafe impl Sync for Area {}

impl Area {
    /// Reserves zero-filled memory, which the kernel gives in huge pages as buffers are used.
    pub(super) fn new(bytes: usize, eventfd: &Weak<OwnedFd>) -> io::Result<Arc<Self>> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
        // A child of fork must not see memory that the kernel writes; and copies to buffers far
        // apart would miss the TLB in small pages.
        for advice in [Advice::LinuxDontFork, Advice::LinuxHugepage] {
            // SAFETY: the range is the mapping made above; neither advice changes its contents.
            let _advice_is_optional = unsafe { madvise(start, bytes, advice) };
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Self { start, bytes, returns: Returns::new(eventfd.clone()) }))
    }

    /// Where the byte `offset` lies.
    pub(super) fn pointer(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset + len <= self.bytes);
        // SAFETY: the assertion keeps the offset inside the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length; the pool and every reader hold
        // the area, so none is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Received bytes that any thread may read and end: one count of a viewed buffer.
pub(crate) struct SharedBytes {
    pub(super) area: Arc<Area>,
    pub(super) id: u16,
    /// In the area.
    pub(super) offset: usize,
    pub(super) len: usize,
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        let start = self.area.pointer(self.offset, self.len);
        // SAFETY: `pointer` checked the range, and the kernel zero-filled it. The buffer stays
        // viewed until this count is given back, so neither the kernel nor a `RecvBuf` writes it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len) }
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        match pool_here(|pool| pool.is_of(&self.area)) {
            Some(pool) => pool.release(self.id),
            None => self.area.returns.push(self.id),
        }
    }
}
