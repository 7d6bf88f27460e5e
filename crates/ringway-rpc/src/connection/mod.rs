//! One connection, the same for both ends and every protocol: its task, and its streams.

pub(crate) mod batch;
pub(crate) mod carrier;
pub(crate) mod driver;
pub(crate) mod table;
