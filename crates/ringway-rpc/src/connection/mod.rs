//! The streams of one connection, the same for both ends and every protocol.

pub(crate) mod batch;
pub(crate) mod carrier;
pub(crate) mod table;
