//! What a peer does wrong.

use std::fmt;

use super::close_code::CloseCode;

/// The first thing that is wrong with what a peer has sent. Nothing is read behind it: whoever gets it says
/// [`code`](Self::code) in a Close frame and ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameFault {
    /// A reserved bit is set, and no extension was agreed on.
    ReservedBit,
    /// The opcode is none of RFC 6455.
    Opcode(u8),
    /// A client's frame is not masked.
    Unmasked,
    /// A server's frame is masked.
    Masked,
    /// The length is written in more bytes than it needs, or has its highest bit set.
    LengthForm,
    /// A control frame is one of several fragments.
    ControlFragmented,
    /// A control frame has more than 125 bytes.
    ControlTooLong,
    /// A fragment continues a message that was not begun.
    NothingToContinue,
    /// A message begins inside of another one.
    MessageInMessage,
    /// A message is longer than is taken.
    TooLong {
        /// Bytes that a message may have.
        max: usize,
    },
    /// A compressed message is malformed.
    Compression,
    /// A text, or the reason of a Close frame, is not UTF-8.
    NotUtf8,
    /// The payload of a Close frame is one byte.
    CloseLength,
    /// A Close frame has a code that may not be sent.
    CloseCode(CloseCode),
}

impl FrameFault {
    /// The code that the peer is told.
    #[must_use]
    pub fn code(self) -> CloseCode {
        match self {
            Self::NotUtf8 | Self::Compression => CloseCode::INVALID,
            Self::TooLong { .. } => CloseCode::TOO_LONG,
            _ => CloseCode::PROTOCOL,
        }
    }
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::ReservedBit => "a reserved bit of a frame is set",
            Self::Opcode(opcode) => return write!(f, "the opcode {opcode} is unknown"),
            Self::Unmasked => "a frame of a client is not masked",
            Self::Masked => "a frame of a server is masked",
            Self::LengthForm => "a length is not in its shortest form",
            Self::ControlFragmented => "a control frame is a fragment",
            Self::ControlTooLong => "a control frame is longer than 125 bytes",
            Self::NothingToContinue => "a fragment continues no message",
            Self::MessageInMessage => "a message begins inside of another one",
            Self::TooLong { max } => return write!(f, "a message is longer than {max} bytes"),
            Self::Compression => "a compressed message is malformed",
            Self::NotUtf8 => "a text is not UTF-8",
            Self::CloseLength => "a Close frame has half of a code",
            Self::CloseCode(code) => return write!(f, "the close code {code} may not be sent"),
        };
        f.write_str(text)
    }
}

impl std::error::Error for FrameFault {}
