//! Between threads: from tokio's tasks, plain threads and other cores to the core that has what they
//! ask for. Nothing here knows of calls.

pub(crate) mod block_on;
pub(crate) mod blocking;
pub(crate) mod mailbox;
pub(crate) mod pipe;
