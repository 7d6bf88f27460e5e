//! Names of cores.

use std::sync::atomic::{AtomicU64, Ordering};

/// Names a core for as long as the process lives; its place in the registry is given away again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CoreNumber(u64);

impl CoreNumber {
    pub(super) fn next() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }
}
