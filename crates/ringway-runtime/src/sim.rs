//! Simulation: the same program over a seeded network in memory and a virtual clock.
//!
//! Everything above the driver runs unchanged, on one thread, under faults that a real kernel shows
//! once a month; the same seed gives the same run. See [`Builder::simulate`](crate::Builder::simulate).
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

pub use crate::driver::sim::{Faults, SimConfig};
