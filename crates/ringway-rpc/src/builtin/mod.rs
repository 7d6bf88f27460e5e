//! Services that every server can offer.

pub(crate) mod health;
pub mod reflection;
