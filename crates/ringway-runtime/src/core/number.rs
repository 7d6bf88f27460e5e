//! Process-wide numbers of cores.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a core, never reused in the process, unlike its index in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CoreNumber(u64);

impl CoreNumber {
    pub(super) fn next() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }
}
