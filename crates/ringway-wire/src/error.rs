//! What can go wrong between bytes and messages, sorted by whose fault it is.

use std::fmt;

/// Why bytes could not become a frame, or a payload could not become bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    // The peer misbehaved: close the connection.
    /// The peer announced a frame longer than the codec accepts.
    FrameTooLarge {
        /// Bytes of the announced frame, length field and header included.
        len: u64,
        /// Bytes of the longest frame accepted.
        max: usize,
    },
    /// The peer's length field holds a value smaller than what that length must count.
    LengthUnderflow {
        /// The value in the length field.
        value: u64,
        /// The least value that makes sense there.
        min: u64,
    },
    /// The peer's varint length field goes on after its last possible byte.
    VarintTooLong {
        /// Bytes of the longest varint accepted.
        max: usize,
    },
    /// The peer sent more bytes than a frame may have without ending it.
    MissingDelimiter {
        /// Bytes of the longest payload accepted between two delimiters.
        max: usize,
    },
    /// The peer closed the stream in the middle of a frame.
    TruncatedFrame {
        /// Bytes of the unfinished frame that had arrived.
        buffered: usize,
    },
    /// The peer replied although no request was waiting for a reply.
    UnexpectedReply,

    // A limit was reached: try later, or raise it.
    /// As many requests wait for a reply as the matcher allows.
    TooManyInFlight {
        /// Requests that may wait at a time.
        max: usize,
    },

    // Misuse: the calling program has to change.
    /// The payload does not fit into one frame.
    PayloadTooLarge {
        /// Bytes of the payload.
        len: usize,
        /// Bytes that such a frame can carry.
        max: usize,
    },
    /// The length adjustment leaves no length to write for so short a payload.
    PayloadTooSmall {
        /// Bytes of the payload.
        len: usize,
        /// Bytes of the shortest payload that can be encoded.
        min: usize,
    },
    /// The payload is not exactly as long as the frames of this codec.
    WrongSize {
        /// Bytes of the payload.
        len: usize,
        /// Bytes of every frame.
        expected: usize,
    },
    /// The header is not exactly as long as the offset of the length field.
    WrongHeaderSize {
        /// Bytes of the header given.
        len: usize,
        /// Bytes in front of the length field.
        expected: usize,
    },
    /// The payload contains the delimiter, so the receiver would cut it short.
    DelimiterInPayload {
        /// Where in the payload the delimiter begins.
        at: usize,
    },
    /// A codec gave an answer that its contract forbids.
    CodecFault {
        /// The broken part of the contract.
        what: &'static str,
    },
}

impl Error {
    /// Whether the remote side broke the protocol, so that its connection should be closed.
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
        )
    }

    /// Whether a bound was reached that frees itself as replies arrive.
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
    fn display_names_what_happened_and_what_to_do() {
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
                Error::TooManyInFlight { max: 2 },
                "2 requests wait for a reply already: wait for one, or raise the limit",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn faults_are_told_apart() {
        assert!(Error::UnexpectedReply.is_peer_fault());
        assert!(!Error::TooManyInFlight { max: 1 }.is_peer_fault());
        assert!(Error::TooManyInFlight { max: 1 }.is_limit());
        assert!(!Error::DelimiterInPayload { at: 0 }.is_peer_fault());
    }
}
