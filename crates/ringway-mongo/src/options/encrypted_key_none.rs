//! Stands in the place of keys that a password protects, without the feature.

use std::error::Error as StdError;

/// # Errors
/// Always.
pub(super) fn decrypt(_: &str, _: &str) -> Result<String, Box<dyn StdError + Send + Sync>> {
    Err("that needs the feature `encrypted-keys` of ringway-mongo".into())
}
