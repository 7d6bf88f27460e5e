//! The replacement for `compress` in builds without the feature `compression`.

use bytes::Bytes;

use super::inflate_error::InflateError;
use super::names::Compression;

/// The available compressions: none.
pub(super) const KNOWN: &[Compression] = &[];

/// Fails, because the feature `compression` is off.
///
/// # Errors
///
/// Always returns [`InflateError::Unknown`].
pub fn decompress(_: Compression, _: &[u8], _: usize) -> Result<Bytes, InflateError> {
    Err(InflateError::Unknown)
}

/// Returns `None`, because the feature `compression` is off.
#[must_use]
pub fn compress(_: Compression, _: &[u8]) -> Option<Vec<u8>> {
    None
}
