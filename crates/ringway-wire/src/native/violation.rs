//! What a peer can do wrong.

use std::fmt;

use super::{Flags, FrameKind, GoAwayCode, StreamId, Tag};

/// A violation of the protocol by a peer. The connection ends with a GOAWAY of its
/// [`code`](Self::code), unless it was the peer that ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    // The peer speaks something else.
    /// The first bytes are not those of this protocol.
    NotNative,
    /// The peer speaks another major version.
    WrongVersion {
        /// The version it speaks.
        major: u8,
    },

    // A frame that makes no sense by itself.
    /// A kind of frame that is not known and may not be skipped.
    UnknownFrame {
        /// Its number.
        code: u8,
    },
    /// Flags that are missing, contradict each other or do not belong to the kind of frame.
    UnexpectedFlags {
        /// The kind of frame.
        kind: FrameKind,
        /// All its flags.
        flags: Flags,
    },
    /// A frame of a stream on the connection, the reverse, or an id that is none.
    WrongStream {
        /// The kind of frame.
        kind: FrameKind,
        /// The id it carries.
        stream: StreamId,
    },
    /// A length that does not suit the kind of frame, or that its parts exceed.
    WrongLength {
        /// The kind of frame.
        kind: FrameKind,
        /// Bytes of its body.
        len: u32,
        /// Bytes of its metadata.
        meta_len: u16,
    },
    /// A body longer than was ever allowed.
    FrameTooLarge {
        /// Bytes of the body.
        len: u32,
        /// Bytes allowed.
        max: u32,
    },
    /// The checksum of a frame does not match its bytes.
    WrongChecksum {
        /// The sum at the frame's end.
        sent: u32,
        /// The sum of its bytes.
        computed: u32,
    },
    /// A SETTINGS body that is not made of pairs, or of too many.
    TornSettings {
        /// Its bytes.
        len: usize,
    },
    /// A setting out of its range.
    BadSetting {
        /// The setting.
        id: u16,
        /// Its value.
        value: u32,
    },
    /// A GOAWAY body without code and time.
    TornGoAway {
        /// Its bytes.
        len: usize,
    },
    /// Metadata that ends in the middle of a piece, or a piece whose value is malformed.
    TornMetadata {
        /// The piece.
        tag: Tag,
    },

    // A frame that makes no sense here.
    /// The first frame is not SETTINGS.
    SettingsExpected {
        /// What it is.
        kind: FrameKind,
    },
    /// An ACK that nothing asked for.
    UnexpectedAck {
        /// SETTINGS or PING.
        kind: FrameKind,
    },
    /// A kind of frame that this side never receives.
    WrongDirection {
        /// The kind of frame.
        kind: FrameKind,
    },
    /// A frame for a stream that was never opened.
    NeverOpened {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// A request on a slot that is not below the announced number of streams.
    SlotOutOfRange {
        /// The slot.
        slot: u32,
        /// The number announced.
        max: u32,
    },
    /// A request on a slot whose last call still runs, or with a generation used before.
    StreamInUse {
        /// The stream.
        stream: StreamId,
    },
    /// A frame on a stream that its sender had ended.
    AfterEnd {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// A new message before the last one was whole, or a fragment of none.
    OutOfOrder {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// A message that is longer than its first fragment said.
    LongerThanAnnounced {
        /// The stream.
        stream: StreamId,
        /// Bytes announced.
        announced: u32,
    },
    /// A number that has a method already, given to another.
    MethodRebound {
        /// The number.
        method: u32,
    },
    /// More numbered methods than were allowed.
    TooManyMethods {
        /// The number allowed.
        max: u32,
    },

    // More than was allowed.
    /// Bytes beyond the credit of their stream.
    CreditExceeded {
        /// The stream.
        stream: StreamId,
        /// Bytes sent beyond it.
        by: u64,
    },
    /// Credit that is below its least or beyond its greatest value.
    CreditOutOfRange {
        /// The credit that a stream would have, in bytes.
        credit: u64,
    },
    /// More frames of a kind in a short time than any sane peer sends.
    Flood {
        /// RST, PING or SETTINGS.
        kind: FrameKind,
    },

    // The end.
    /// The peer ends the connection at once, and says why.
    PeerLeft {
        /// A [`GoAwayCode`] as a number.
        code: u32,
        /// Why, in words of the peer's, made fit to be printed.
        reason: String,
    },

    // Too late.
    /// No answer came within the time for it.
    Unanswered {
        /// What was not answered.
        kind: FrameKind,
    },
}

impl Violation {
    /// The code of the GOAWAY that ends the connection.
    #[must_use]
    pub const fn code(&self) -> GoAwayCode {
        match self {
            Self::NotNative
            | Self::UnknownFrame { .. }
            | Self::UnexpectedFlags { .. }
            | Self::WrongStream { .. }
            | Self::WrongLength { .. }
            | Self::TornGoAway { .. }
            | Self::TornMetadata { .. }
            | Self::SettingsExpected { .. }
            | Self::UnexpectedAck { .. }
            | Self::WrongDirection { .. }
            | Self::NeverOpened { .. }
            | Self::SlotOutOfRange { .. }
            | Self::StreamInUse { .. }
            | Self::AfterEnd { .. }
            | Self::OutOfOrder { .. }
            | Self::LongerThanAnnounced { .. }
            | Self::MethodRebound { .. }
            | Self::TooManyMethods { .. } => GoAwayCode::Protocol,
            Self::WrongVersion { .. } => GoAwayCode::Version,
            Self::FrameTooLarge { .. } => GoAwayCode::TooLarge,
            Self::WrongChecksum { .. } => GoAwayCode::Checksum,
            Self::TornSettings { .. } | Self::BadSetting { .. } => GoAwayCode::BadSettings,
            Self::CreditExceeded { .. } | Self::CreditOutOfRange { .. } => GoAwayCode::FlowControl,
            Self::Flood { .. } => GoAwayCode::TooManyResets,
            Self::PeerLeft { .. } => GoAwayCode::NoError,
            Self::Unanswered { .. } => GoAwayCode::Timeout,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNative => write!(f, "the first bytes are not those of RWY/1"),
            Self::WrongVersion { major } => write!(f, "peer speaks version {major}, not 1"),
            Self::UnknownFrame { code } => write!(f, "frame of unknown kind {code:#04x}"),
            Self::UnexpectedFlags { kind, flags } => write!(f, "{kind:?} with flags {flags:?}"),
            Self::WrongStream { kind, stream } => {
                write!(f, "{kind:?} for {stream} (id {:#x})", stream.raw())
            }
            Self::WrongLength { kind, len, meta_len } => {
                write!(f, "{kind:?} of {len} bytes with {meta_len} bytes of metadata")
            }
            Self::FrameTooLarge { len, max } => write!(f, "frame of {len} bytes, at most {max}"),
            Self::WrongChecksum { sent, computed } => {
                write!(f, "checksum {sent:#010x} on bytes whose sum is {computed:#010x}")
            }
            Self::TornSettings { len } => write!(f, "settings of {len} bytes"),
            Self::BadSetting { id, value } => write!(f, "setting {id} is {value}, out of range"),
            Self::TornGoAway { len } => write!(f, "GoAway of {len} bytes"),
            Self::TornMetadata { tag } => write!(f, "malformed {tag:?} in metadata"),
            Self::SettingsExpected { kind } => write!(f, "{kind:?} instead of the first Settings"),
            Self::UnexpectedAck { kind } => write!(f, "answer to no {kind:?}"),
            Self::WrongDirection { kind } => write!(f, "{kind:?} in the wrong direction"),
            Self::NeverOpened { kind, stream } => write!(f, "{kind:?} for {stream}, never opened"),
            Self::SlotOutOfRange { slot, max } => write!(f, "slot {slot} in a table of {max}"),
            Self::StreamInUse { stream } => write!(f, "Request for {stream}, in use or past"),
            Self::AfterEnd { kind, stream } => write!(f, "{kind:?} for {stream} after its end"),
            Self::OutOfOrder { kind, stream } => write!(f, "{kind:?} for {stream} out of order"),
            Self::LongerThanAnnounced { stream, announced } => {
                write!(f, "message on {stream} longer than the {announced} bytes announced")
            }
            Self::MethodRebound { method } => write!(f, "method number {method} named again"),
            Self::TooManyMethods { max } => write!(f, "more than {max} method numbers"),
            Self::CreditExceeded { stream, by } => {
                write!(f, "{by} bytes beyond the credit of {stream}")
            }
            Self::CreditOutOfRange { credit } => write!(f, "credit of {credit}, out of range"),
            Self::Flood { kind } => write!(f, "too many {kind:?} frames in a short time"),
            Self::PeerLeft { code, reason } => {
                f.write_str("the peer has ended the connection: ")?;
                match GoAwayCode::from_code(*code) {
                    Some(known) => write!(f, "{known:?}")?,
                    None => write!(f, "code {code}")?,
                }
                if reason.is_empty() { Ok(()) } else { write!(f, ", {reason}") }
            }
            Self::Unanswered { kind } => write!(f, "no answer to {kind:?} in time"),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::Violation;
    use crate::native::{Flags, FrameKind, GoAwayCode, StreamId, Tag};

    #[test]
    fn each_says_what_happened_and_ends_the_connection_with_its_code() {
        let stream = StreamId::new(3, 1);
        let flags = Flags::MORE | Flags::END;
        let cases = [
            (
                Violation::WrongVersion { major: 2 },
                GoAwayCode::Version,
                "peer speaks version 2, not 1",
            ),
            (
                Violation::UnexpectedFlags { kind: FrameKind::Data, flags },
                GoAwayCode::Protocol,
                "Data with flags END|MORE",
            ),
            (
                Violation::WrongStream { kind: FrameKind::Ping, stream },
                GoAwayCode::Protocol,
                "Ping for slot 3 generation 1 (id 0x3001)",
            ),
            (
                Violation::FrameTooLarge { len: 9, max: 8 },
                GoAwayCode::TooLarge,
                "frame of 9 bytes, at most 8",
            ),
            (
                Violation::WrongChecksum { sent: 1, computed: 2 },
                GoAwayCode::Checksum,
                "checksum 0x00000001 on bytes whose sum is 0x00000002",
            ),
            (
                Violation::BadSetting { id: 6, value: 2 },
                GoAwayCode::BadSettings,
                "setting 6 is 2, out of range",
            ),
            (
                Violation::TornMetadata { tag: Tag::Entry },
                GoAwayCode::Protocol,
                "malformed Entry in metadata",
            ),
            (
                Violation::CreditExceeded { stream, by: 7 },
                GoAwayCode::FlowControl,
                "7 bytes beyond the credit of slot 3 generation 1",
            ),
            (
                Violation::Flood { kind: FrameKind::Rst },
                GoAwayCode::TooManyResets,
                "too many Rst frames in a short time",
            ),
            (
                Violation::PeerLeft { code: 7, reason: String::from("too many Rst frames") },
                GoAwayCode::NoError,
                "the peer has ended the connection: TooManyResets, too many Rst frames",
            ),
            (
                Violation::PeerLeft { code: 77, reason: String::new() },
                GoAwayCode::NoError,
                "the peer has ended the connection: code 77",
            ),
            (
                Violation::Unanswered { kind: FrameKind::Ping },
                GoAwayCode::Timeout,
                "no answer to Ping in time",
            ),
        ];
        for (violation, code, text) in cases {
            assert_eq!((violation.code(), violation.to_string().as_str()), (code, text));
        }
    }
}
