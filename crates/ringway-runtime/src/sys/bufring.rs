//! The ring in which a driver provides receive buffers to the kernel.

use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Pool;
use crate::buf::View;

/// The provided buffers of one group, which the kernel takes in the order in which they were
/// provided.
pub(crate) struct BufRing {
    pool: Rc<Pool>,
    memory: NonNull<BufRingEntry>,
    entries: u16,
    tail: u16,
    /// Number of buffers that the kernel holds and has not filled yet.
    provided: usize,
}

impl BufRing {
    /// Creates a ring with `entries` entries (a power of two) for the buffers of `pool`.
    pub(crate) fn new(pool: Rc<Pool>, entries: u16) -> io::Result<Self> {
        assert!(entries.is_power_of_two());
        let bytes = usize::from(entries) * size_of::<BufRingEntry>();
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new anonymous mapping aliases nothing; it is page-aligned as the kernel asks.
        let memory = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { pool, memory, entries, tail: 0, provided: 0 })
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    pub(crate) fn entries(&self) -> u16 {
        self.entries
    }

    pub(crate) fn provided(&self) -> usize {
        self.provided
    }

    /// Lends free buffers until the kernel holds `goal` of them or none is left.
    pub(crate) fn top_up(&mut self, goal: usize) {
        let goal = goal.min(usize::from(self.entries));
        if self.provided >= goal {
            return;
        }
        while self.provided < goal {
            let Some(id) = self.pool.lend() else { break };
            self.write_entry(id);
            self.provided += 1;
        }
        self.publish_tail();
    }

    /// Takes the buffer `id` that a completion named, filled with `len` bytes.
    pub(crate) fn filled(&mut self, id: u16, len: usize) -> View {
        self.provided -= 1;
        View::of_lent(Rc::clone(&self.pool), id, len)
    }

    /// Takes back a buffer that a completion named although it holds nothing.
    pub(crate) fn unfilled(&mut self, id: u16) {
        self.provided -= 1;
        self.pool.return_lent(id);
    }

    /// Keeps the buffers mapped forever, because the kernel may still write them.
    pub(crate) fn leak(&self) {
        std::mem::forget(Rc::clone(&self.pool));
    }

    fn write_entry(&mut self, id: u16) {
        let at = usize::from(self.tail & (self.entries - 1));
        // SAFETY: `at` is within the mapping, and the kernel does not read the entry before the
        // tail is published; it holds at most `entries` buffers, so the entry is free.
        let entry = unsafe { &mut *self.memory.as_ptr().add(at) };
        entry.set_addr(self.pool.address(id));
        entry.set_len(self.pool.buffer_bytes() as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish_tail(&self) {
        // SAFETY: the tail is the 16-bit field that overlays the first entry's last two bytes; it
        // is aligned, and only this thread writes it.
        unsafe {
            let tail = BufRingEntry::tail(self.memory.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for BufRing {
    fn drop(&mut self) {
        let bytes = usize::from(self.entries) * size_of::<BufRingEntry>();
        // SAFETY: the mapping was made by `new`; the driver closes its ring before it drops this.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
