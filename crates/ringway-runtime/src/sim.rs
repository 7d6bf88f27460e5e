//! Simulation: the same program over a seeded network in memory and a virtual clock.
//!
//! Everything above the driver runs unchanged, on one thread, under faults that are rare on a real
//! kernel; the same seed gives the same run. See [`Builder::simulate`](crate::Builder::simulate).
//!
//! ```
//! use std::time::Duration;
//! use ringway_runtime::sim::SimConfig;
//! use ringway_runtime::{Builder, now, sleep};
//!
//! let waited = Builder::simulate(SimConfig::new(1), async {
//!     let began = now();
//!     sleep(Duration::from_secs(86_400)).await;
//!     now() - began
//! })?;
//! assert!(waited >= Duration::from_secs(86_400));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::path::Path;

use crate::core::{try_with_current, with_current};
pub use crate::driver::sim::{Disk, Faults, SimConfig};

/// The seed of the simulation that runs on the calling thread, from which libraries can derive their random choices;
/// `None` outside of one.
pub fn seed() -> Option<u64> {
    try_with_current(|core| core.driver.borrow().seed()).flatten()
}

/// Has the simulation that is running find `disk` at that path, in place of what it found there.
///
/// # Errors
/// `Unsupported` outside of a simulation; `ResourceBusy` where files are open on a disk that was mounted at
/// the same path.
///
/// # Panics
/// Outside of a runtime's thread.
pub fn mount(at: impl AsRef<Path>, disk: &Disk) -> io::Result<()> {
    with_current(|core| core.driver.borrow_mut().mount(at.as_ref(), disk))
}
