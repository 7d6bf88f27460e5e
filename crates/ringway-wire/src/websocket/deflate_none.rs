//! The replacement for `deflate` in builds without the feature `compression`.

use super::fault::FrameFault;

/// Whether this build can compress messages: it lacks the feature `compression`.
pub const CAN_DEFLATE: bool = false;

/// Returns `None`, because the feature `compression` is off.
pub(super) fn deflate(_: &[u8]) -> Option<Vec<u8>> {
    None
}

pub(super) use self::CannotInflate as Inflating;

/// Fails, because the feature `compression` is off.
#[derive(Debug)]
pub(super) struct CannotInflate;

impl CannotInflate {
    pub(super) fn new(_: Vec<u8>, _: usize) -> Self {
        Self
    }

    pub(super) fn held(&self) -> usize {
        0
    }

    pub(super) fn step(&mut self) -> Result<Option<Vec<u8>>, FrameFault> {
        Err(FrameFault::ReservedBit)
    }
}
