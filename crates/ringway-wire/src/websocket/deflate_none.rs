//! The replacement for `deflate` in builds without the feature `compression`.

use super::fault::FrameFault;

/// Whether this build can compress messages: it lacks the feature `compression`.
pub const CAN_DEFLATE: bool = false;

/// Returns `None`, because the feature `compression` is off.
pub(super) fn deflate(_: &[u8]) -> Option<Vec<u8>> {
    None
}

/// Fails, because the feature `compression` is off.
pub(super) fn inflate(_: &[u8], _: usize) -> Result<Vec<u8>, FrameFault> {
    Err(FrameFault::ReservedBit)
}
