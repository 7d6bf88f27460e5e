//! The cost of a client.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this process so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
