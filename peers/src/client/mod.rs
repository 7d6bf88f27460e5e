//! The clients. Each verifies every reply and prints the same report.

mod connection;
mod ping_pong;
mod report;
mod rpc;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) use ping_pong::ping_pong;
pub(crate) use report::Report;
pub(crate) use rpc::{calls, flood, streams};

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
