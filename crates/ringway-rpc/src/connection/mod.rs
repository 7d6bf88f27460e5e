//! Connections, for both ends and every protocol: their tasks and their streams.

pub(crate) mod batch;
pub(crate) mod carrier;
pub(crate) mod driver;
pub(crate) mod table;
