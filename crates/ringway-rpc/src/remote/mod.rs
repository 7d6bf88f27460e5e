//! Crossing threads: from tokio's tasks, plain threads and other cores to the core that owns an
//! object. Nothing here depends on calls; what other clients need too is `ringway_net::remote`.

pub(crate) mod blocking;
pub(crate) mod pipe;

pub(crate) use ringway_net::remote::mailbox;
