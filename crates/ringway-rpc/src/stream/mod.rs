//! The handles of streams, which users hold.

pub(crate) mod pending;
pub(crate) mod remote;
pub(crate) mod sink;
pub(crate) mod streaming;
