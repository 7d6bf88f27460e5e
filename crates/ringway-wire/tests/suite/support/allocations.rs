//! What the allocator was asked for. It counts for the whole process: a test that asks runs alone.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
pub(crate) fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Allocations while `work` is done. The thread that runs the tests allocates as well, once, so what
/// is not nothing is measured again.
pub(crate) fn allocations_of(mut work: impl FnMut()) -> usize {
    let mut counted = || {
        let before = allocations();
        work();
        allocations() - before
    };
    (0..3).map(|_| counted()).find(|&count| count == 0).unwrap_or_else(counted)
}

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}
