//! The memory of a pool.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::buf::returns::Returns;

/// A memory mapping, unmapped when nobody refers to it any more.
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

    /// The address of the byte at `offset`.
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
