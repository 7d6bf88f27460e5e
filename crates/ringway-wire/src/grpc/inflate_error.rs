//! What may be wrong with a compressed message.

use std::fmt;

/// Why a message cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InflateError {
    /// It is longer than is taken. RESOURCE_EXHAUSTED.
    TooLong,
    /// It is not what it is said to be. INTERNAL.
    Broken,
    /// Nothing here knows how. UNIMPLEMENTED.
    Unknown,
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a message is longer than is taken when it is decompressed",
            Self::Broken => "a compressed message cannot be decompressed",
            Self::Unknown => "a message is compressed in a way that is not known here",
        })
    }
}

impl std::error::Error for InflateError {}
