//! Work on a core for tokio's tasks, plain threads and other cores. Clients of all protocols build on it.

mod background;
mod block_on;
pub mod mailbox;
mod task;

pub use background::background_core;
pub use block_on::{block_on, block_on_until};
pub use task::{RemoteTask, TaskGone};
