//! Sources of hosts that are no registries.

#[cfg(feature = "dns")]
pub(crate) mod dns;
#[cfg(not(feature = "dns"))]
#[path = "dns_none.rs"]
pub(crate) mod dns;
#[cfg(feature = "dns")]
mod dns_records;
pub(crate) mod file;
mod list;

pub(crate) use list::parse as parse_list;
