//! Errors of codecs and matchers, sorted by whose fault they are.

use std::fmt;

/// The reason why bytes could not be decoded, or a payload could not be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    // The peer misbehaved: close the connection.
    /// The peer announced a frame longer than the codec accepts.
    FrameTooLarge {
        /// Length of the announced frame in bytes, including length field and header.
        len: u64,
        /// Length of the longest accepted frame in bytes.
        max: usize,
    },
    /// The peer's length field is too small for what it counts.
    LengthUnderflow {
        /// The value in the length field.
        value: u64,
        /// The smallest valid value.
        min: u64,
    },
    /// The peer's varint length field is longer than allowed.
    VarintTooLong {
        /// Length of the longest accepted varint in bytes.
        max: usize,
    },
    /// The peer sent more bytes without a delimiter than a frame may have.
    MissingDelimiter {
        /// Length of the longest accepted payload in bytes.
        max: usize,
    },
    /// The peer closed the stream in the middle of a frame.
    TruncatedFrame {
        /// Number of bytes of the incomplete frame that had arrived.
        buffered: usize,
    },
    /// The peer sent a reply that no request was waiting for.
    UnexpectedReply,
    /// The peer sent what a codec of the program refuses, such as a frame with a wrong sum.
    BadFrame {
        /// What was wrong.
        what: &'static str,
    },

    // A limit was reached: try later, or raise the limit.
    /// The limit of requests in flight is reached.
    TooManyInFlight {
        /// The largest number of requests in flight.
        max: usize,
    },

    // Misuse: change the calling program.
    /// The payload does not fit into one frame.
    PayloadTooLarge {
        /// Length of the payload in bytes.
        len: usize,
        /// Length of the longest payload that fits in bytes.
        max: usize,
    },
    /// The length adjustment would make the length of so short a payload negative.
    PayloadTooSmall {
        /// Length of the payload in bytes.
        len: usize,
        /// Length of the shortest payload that can be encoded, in bytes.
        min: usize,
    },
    /// The payload does not have the frame size of this codec.
    WrongSize {
        /// Length of the payload in bytes.
        len: usize,
        /// Length of every frame in bytes.
        expected: usize,
    },
    /// The header does not have the length of the length field's offset.
    WrongHeaderSize {
        /// Length of the given header in bytes.
        len: usize,
        /// The offset of the length field in bytes.
        expected: usize,
    },
    /// The payload contains the delimiter, so the receiver would cut it.
    DelimiterInPayload {
        /// Offset of the delimiter in the payload.
        at: usize,
    },
    /// A codec broke the contract of [`Codec`](crate::Codec).
    CodecFault {
        /// The broken part of the contract.
        what: &'static str,
    },
}

impl Error {
    /// Whether the peer broke the protocol, so that its connection should be closed.
    #[must_use]
    pub fn is_peer_fault(&self) -> bool {
        matches!(
            self,
            Self::FrameTooLarge { .. }
                | Self::LengthUnderflow { .. }
                | Self::VarintTooLong { .. }
                | Self::MissingDelimiter { .. }
                | Self::TruncatedFrame { .. }
                | Self::UnexpectedReply
                | Self::BadFrame { .. }
        )
    }

    /// Whether a limit was reached that frees up as replies arrive.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::TooManyInFlight { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrameTooLarge { len, max } => write!(
                f,
                "peer announced a frame of {len} bytes, the limit is {max}: \
                 close the connection, or raise the codec's frame limit on both sides"
            ),
            Self::LengthUnderflow { value, min } => write!(
                f,
                "peer sent the length {value}, which cannot be below {min}: \
                 close the connection, and check what the length counts"
            ),
            Self::VarintTooLong { max } => write!(
                f,
                "peer sent a varint length of more than {max} bytes: close the connection"
            ),
            Self::MissingDelimiter { max } => write!(
                f,
                "peer sent no delimiter within {max} bytes: \
                 close the connection, or raise the codec's payload limit"
            ),
            Self::TruncatedFrame { buffered } => write!(
                f,
                "peer closed the stream {buffered} bytes into a frame: \
                 drop those bytes, the frame is lost"
            ),
            Self::UnexpectedReply => {
                write!(f, "peer replied to no request: close the connection")
            }
            Self::BadFrame { what } => {
                write!(f, "peer sent a bad frame ({what}): close the connection")
            }
            Self::TooManyInFlight { max } => write!(
                f,
                "{max} requests wait for a reply already: wait for one, or raise the limit"
            ),
            Self::PayloadTooLarge { len, max } => write!(
                f,
                "payload of {len} bytes in a frame that carries {max}: \
                 split it, or raise the limit on both sides"
            ),
            Self::PayloadTooSmall { len, min } => write!(
                f,
                "payload of {len} bytes, the length adjustment needs {min}: \
                 pad it, or change the adjustment"
            ),
            Self::WrongSize { len, expected } => write!(
                f,
                "payload of {len} bytes in a codec of {expected}-byte frames: \
                 pad or split it to {expected} bytes"
            ),
            Self::WrongHeaderSize { len, expected } => write!(
                f,
                "header of {len} bytes in front of a length field at offset {expected}: \
                 pass {expected} bytes to encode_with_header"
            ),
            Self::DelimiterInPayload { at } => write!(
                f,
                "payload contains the delimiter at byte {at}: escape it, or use a length field"
            ),
            Self::CodecFault { what } => {
                write!(f, "codec broke its contract ({what}): correct the codec")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn messages_name_what_happened_and_what_to_do() {
        let cases = [
            (
                Error::FrameTooLarge { len: 99, max: 10 },
                "peer announced a frame of 99 bytes, the limit is 10: \
                 close the connection, or raise the codec's frame limit on both sides",
            ),
            (
                Error::WrongHeaderSize { len: 0, expected: 4 },
                "header of 0 bytes in front of a length field at offset 4: \
                 pass 4 bytes to encode_with_header",
            ),
            (
                Error::BadFrame { what: "a wrong sum" },
                "peer sent a bad frame (a wrong sum): close the connection",
            ),
            (
                Error::TooManyInFlight { max: 2 },
                "2 requests wait for a reply already: wait for one, or raise the limit",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn faults_are_classified() {
        assert!(Error::UnexpectedReply.is_peer_fault());
        assert!(Error::BadFrame { what: "a wrong sum" }.is_peer_fault());
        assert!(!Error::TooManyInFlight { max: 1 }.is_peer_fault());
        assert!(Error::TooManyInFlight { max: 1 }.is_limit());
        assert!(!Error::DelimiterInPayload { at: 0 }.is_peer_fault());
    }
}
