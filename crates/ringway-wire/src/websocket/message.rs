//! What passes between the ends of a connection.

use bytes::Bytes;

use super::close_code::CloseCode;

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebSocketMessage {
    /// A text.
    Text(String),
    /// Bytes.
    Binary(Bytes),
}

impl WebSocketMessage {
    /// The payload.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Binary(_) => None,
        }
    }
}

impl From<String> for WebSocketMessage {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for WebSocketMessage {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Bytes> for WebSocketMessage {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for WebSocketMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

/// Something that a peer has sent as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A message, all of its fragments.
    Message(WebSocketMessage),
    /// A ping, to be answered by a pong with the same payload.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// The peer sends nothing more, and wants to be told the same.
    Close(Closing),
}

/// How a peer has ended a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// The code; [`CloseCode::NONE`] if it has told none.
    pub code: CloseCode,
    /// The reason, for people; empty if it has told none.
    pub reason: String,
}
