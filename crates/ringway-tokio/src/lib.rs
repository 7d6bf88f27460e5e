//! A tokio runtime beside Ringway's cores, for libraries that need one.
//!
//! A core of Ringway is no tokio runtime: what wants tokio's timers or sockets panics there. This crate
//! starts a tokio runtime of one thread, when it is first needed, and lets tasks of cores use it:
//!
//! | | runs | for |
//! |---|---|---|
//! | [`run`] | the future on tokio's thread | futures that are `Send`, the rule |
//! | [`enter`] | the future on the calling core, within tokio's context | futures that are not `Send` |
//! | [`handle`] | – | all else that tokio has |
//!
//! ```
//! use std::time::Duration;
//!
//! let slept = ringway_runtime::block_on(async {
//!     ringway_tokio::run(async {
//!         tokio::time::sleep(Duration::from_millis(1)).await;
//!         "slept"
//!     })
//!     .await
//! })?;
//! assert_eq!(slept?, "slept");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod enter;
mod limits;
mod run;
mod side;

pub use enter::enter;
pub use run::{RunError, run};
pub use side::{handle, set_handle};
