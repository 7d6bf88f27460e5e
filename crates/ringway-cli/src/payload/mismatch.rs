//! The first wrong byte of a payload.

use std::fmt;

/// A payload whose content is not what the connection and its sequence number demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The connection that was to receive the payload, by the sender's count.
    pub(crate) connection: u32,
    /// The payload's place among those of the connection, from 0.
    pub(crate) sequence: u64,
    /// The first byte that differs, from the start of the payload.
    pub(crate) offset: usize,
    pub(crate) expected: u8,
    pub(crate) found: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connection, sequence, offset, expected, found } = self;
        write!(
            f,
            "payload {sequence} of connection {connection} is wrong at byte {offset}: {found:#04x} \
             instead of {expected:#04x}"
        )
    }
}

impl std::error::Error for Mismatch {}

/// The index at which two slices of equal length first differ; `None` if they are equal.
pub(super) fn first_difference(expected: &[u8], found: &[u8]) -> Option<usize> {
    // Equality of slices is a memcmp; bytes are looked at one by one only once something is wrong.
    if expected == found {
        return None;
    }
    expected.iter().zip(found).position(|(expected, found)| expected != found)
}
