//! Counts the cores of the process.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts a core from its making until nothing of it is left.
pub(super) struct Alive;

static ALIVE: AtomicUsize = AtomicUsize::new(0);

impl Alive {
    pub(super) fn begin() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cores of this process that exist: those that run, those that are ending, and ended ones of which
/// a stream or the like is still held. For tests: when everything has ended it is 0.
pub fn cores_alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}
