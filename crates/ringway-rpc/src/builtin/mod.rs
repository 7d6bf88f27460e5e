//! Services that every server can offer.

pub(crate) mod grpc_reflection;
pub(crate) mod health;
pub mod reflection;
