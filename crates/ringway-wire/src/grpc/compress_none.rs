//! Messages as they are, in a build that cannot compress them.

use bytes::Bytes;

use super::inflate_error::InflateError;
use super::names::Compression;

/// There are none.
pub(super) const KNOWN: &[Compression] = &[];

/// Always [`InflateError::Unknown`]: the feature `compression` is off.
///
/// # Errors
///
/// See above.
pub fn decompress(_: Compression, _: &[u8], _: usize) -> Result<Bytes, InflateError> {
    Err(InflateError::Unknown)
}

/// Always `None`: the feature `compression` is off.
#[must_use]
pub fn compress(_: Compression, _: &[u8]) -> Option<Vec<u8>> {
    None
}
