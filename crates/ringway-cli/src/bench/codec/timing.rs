//! How long one operation takes, done over and over.

use std::time::Instant;

use crate::allocations;
use crate::args::RunLength;

/// One run of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    /// Operations per second.
    pub(super) rate: f64,
    /// For each operation.
    pub(super) allocations: f64,
    /// Whether the result was what it should be.
    pub(super) is_right: bool,
}

/// Operations between two looks at the clock, which takes as long as one of them.
const BATCH: u64 = 1000;

/// Does `operation` until the warm-up is over, and then until the interval is. An allocation costs some 16 ns
/// more here, for it is counted.
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
