//! What stands for DNS where the crate is built without it.

use ringway_rpc::{Resolver, Status};

/// Says what is missing.
///
/// # Errors
/// Fails always.
pub(crate) fn resolver(address: &str) -> Result<Box<dyn Resolver>, Status> {
    let why = "build `ringway-discovery` with the feature `dns`";
    Err(Status::invalid_argument(format!("`{address}` cannot be resolved: {why}")))
}
