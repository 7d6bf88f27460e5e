//! Why a connection to a server of JSON-RPC fails.

use std::fmt;

use ringway_wire::websocket::{CloseCode, FrameFault};

use crate::limits;

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
    /// The server does not open a WebSocket.
    NoWebSocket(String),
    Frame(FrameFault),
    /// A message of a WebSocket is binary.
    NotText,
    /// The server has closed the WebSocket.
    Closed {
        code: CloseCode,
        reason: String,
    },
    Silent,
}

impl JsonServerViolation {
    /// The code that the server of a WebSocket is told.
    pub(super) fn close_code(&self) -> CloseCode {
        match self {
            Self::Frame(fault) => fault.code(),
            Self::NotText => CloseCode::UNSUPPORTED,
            Self::NotJson | Self::NoMessage(_) | Self::Unreadable(_) => CloseCode::INVALID,
            Self::Closed { code, .. } => *code,
            Self::TextTooLong { .. } => CloseCode::TOO_LONG,
            Self::Http(_) | Self::NoWebSocket(_) | Self::Silent => CloseCode::PROTOCOL,
        }
    }

    /// Whether the server has only said that it serves no longer, or not here.
    pub(in crate::client) fn is_leave(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::NoWebSocket(_))
    }
}

impl fmt::Display for JsonServerViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TextTooLong { max } => write!(f, "a text is longer than {max} bytes"),
            Self::NotJson => f.write_str("a text is not JSON"),
            Self::NoMessage(why) => write!(f, "a text is not a message of JSON-RPC 2.0: {why}"),
            Self::Unreadable(text) => write!(f, "it could not read a request: {text}"),
            Self::Http(why) => write!(f, "its answer of HTTP is wrong: {why}"),
            Self::NoWebSocket(why) => write!(f, "it opens no WebSocket: {why}"),
            Self::Frame(fault) => write!(f, "a frame of its WebSocket is wrong: {fault}"),
            Self::NotText => f.write_str("a message of its WebSocket is binary"),
            Self::Closed { code, reason } => {
                let reason = reason.chars().take(limits::FOREIGN_LINE_SHOWN).collect::<String>();
                write!(f, "it has closed the WebSocket: {code} {}", reason.escape_default())
            }
            Self::Silent => f.write_str("it does not answer rpc.ping"),
        }
    }
}
