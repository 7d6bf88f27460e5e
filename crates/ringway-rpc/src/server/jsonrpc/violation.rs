//! Why a connection that speaks JSON-RPC is closed.

use std::fmt;

/// What the peer did, or did not do in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonViolation {
    /// Nobody knows where the next message begins.
    LineTooLong { max: usize },
    /// A line was begun and not ended.
    Overdue,
    /// Replies were not taken.
    Stalled,
    /// The core is short of memory, and this connection holds the most.
    OutOfMemory,
}

impl fmt::Display for JsonViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineTooLong { max } => write!(f, "a line is longer than {max} bytes"),
            Self::Overdue => f.write_str("the end of a line did not come in time"),
            Self::Stalled => f.write_str("replies were not taken in time"),
            Self::OutOfMemory => f.write_str("the server is short of memory"),
        }
    }
}
