//! A tokio runtime beside Ringway's cores, for libraries that need one.
//!
//! A Ringway core is not a tokio runtime, so code that needs tokio's timers or sockets panics there. This crate
//! starts a tokio runtime with one thread when it is first needed, and lets tasks of cores use it:
//!
//! | | runs | for |
//! |---|---|---|
//! | [`run`] | the future on tokio's thread | futures that are `Send`, as most are |
//! | [`enter`] | the future on the calling core, in tokio's context | futures that are not `Send` |
//! | [`handle`] | – | everything else that tokio has |
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
