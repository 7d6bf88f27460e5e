//! The error of decompression.

use std::fmt;

/// The reason why a message cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InflateError {
    /// The message is too long when decompressed; the status is RESOURCE_EXHAUSTED.
    TooLong,
    /// The message is malformed; the status is INTERNAL.
    Broken,
    /// The compression is not available; the status is UNIMPLEMENTED.
    Unknown,
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a message exceeds the message limit when it is decompressed",
            Self::Broken => "a compressed message is malformed",
            Self::Unknown => "a message uses a compression that is not supported here",
        })
    }
}

impl std::error::Error for InflateError {}
