//! The counters of the allocator. They count for the whole process, so a test that reads them runs alone.

use std::alloc::System;
use std::sync::OnceLock;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use super::alone::is_alone;

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations since the process began. A reallocation counts again.
///
/// # Panics
/// In a process that runs other tests as well: their allocations would count.
pub(crate) fn allocations() -> usize {
    static ALONE: OnceLock<bool> = OnceLock::new();
    assert!(ALONE.get_or_init(is_alone), "a test that counts allocations calls `alone`");
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}
