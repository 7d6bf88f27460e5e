//! Why a connection to a server of JSON-RPC fails.

use std::fmt;

/// What the server did, or did not do in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::client) enum JsonServerViolation {
    TextTooLong {
        max: usize,
    },
    NotJson,
    /// The text is JSON, but no message of JSON-RPC.
    NoMessage(String),
    /// The server could not read what it was sent, and says so without naming a call.
    Unreadable(String),
    /// An answer of HTTP is wrong.
    Http(String),
    Silent,
}

impl fmt::Display for JsonServerViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TextTooLong { max } => write!(f, "a text is longer than {max} bytes"),
            Self::NotJson => f.write_str("a text is not JSON"),
            Self::NoMessage(why) => write!(f, "a text is not a message of JSON-RPC 2.0: {why}"),
            Self::Unreadable(text) => write!(f, "it could not read a request: {text}"),
            Self::Http(why) => write!(f, "its answer of HTTP is wrong: {why}"),
            Self::Silent => f.write_str("it does not answer rpc.ping"),
        }
    }
}
