//! Measures the time of one operation by repeating it.

use std::time::Instant;

use crate::allocations;
use crate::args::RunLength;

/// The result of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    /// Operations per second.
    pub(super) rate: f64,
    /// Allocations per operation.
    pub(super) allocations: f64,
    /// Whether the result was as expected.
    pub(super) is_right: bool,
}

/// Number of operations between two readings of the clock, which costs as much as one operation.
const BATCH: u64 = 1000;

/// Repeats `operation` until the warm-up ends and then until the interval does. An allocation costs some 16 ns
/// more here, because it is counted.
#[inline(never)]
pub(super) fn measure(length: RunLength, mut operation: impl FnMut()) -> Timed {
    let mut until = |end: std::time::Duration| {
        let (start, mut count) = (Instant::now(), 0);
        loop {
            for _ in 0..BATCH {
                operation();
            }
            count += BATCH;
            let elapsed = start.elapsed();
            if elapsed >= end {
                return (count as f64, elapsed.as_secs_f64());
            }
        }
    };
    until(length.warmup);
    let before = allocations::count();
    let (count, seconds) = until(length.measured);
    let allocated = allocations::count() - before;
    Timed { rate: count / seconds, allocations: allocated as f64 / count, is_right: false }
}
