//! Tokens of tasks, and of the runs to which they belong.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process-wide name of a task: `core:16 | generation:20 | index:28`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskToken(u64);

impl TaskToken {
    pub(super) const GENERATION_MASK: u32 = (1 << 20) - 1;
    const INDEX_MASK: u32 = (1 << 28) - 1;

    pub(super) fn new(core: u16, generation: u32, index: u32) -> Self {
        let generation = u64::from(generation & Self::GENERATION_MASK);
        Self(u64::from(core) << 48 | generation << 28 | u64::from(index & Self::INDEX_MASK))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn core(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub(super) fn generation(self) -> u32 {
        (self.0 >> 28) as u32 & Self::GENERATION_MASK
    }

    pub(super) fn index(self) -> usize {
        (self.0 as u32 & Self::INDEX_MASK) as usize
    }
}

/// The number of a core's run, which distinguishes runs even if they follow each other on one
/// thread or under one core id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run(u64);

impl Run {
    pub(super) fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        Self(RUNS.fetch_add(1, Ordering::Relaxed))
    }
}
