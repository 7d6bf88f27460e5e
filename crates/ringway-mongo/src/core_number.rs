//! The numbers of cores.

/// The number of a core that has a client, among all that ever had one.
pub(crate) type CoreNumber = u32;
