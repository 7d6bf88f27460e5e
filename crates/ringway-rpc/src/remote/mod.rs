//! Crossing threads: from tokio's tasks, plain threads and other cores to the core that owns an
//! object. Nothing here depends on calls.

pub(crate) mod block_on;
pub(crate) mod blocking;
pub(crate) mod mailbox;
pub(crate) mod pipe;
