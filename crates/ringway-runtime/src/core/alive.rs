//! A count of the cores in the process.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts a core from its creation until nothing of it is left.
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

/// Number of cores in this process: running ones, ending ones, and ended ones of which a handle
/// such as a stream is still held. For tests: it is 0 when everything has ended.
pub fn cores_alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}
