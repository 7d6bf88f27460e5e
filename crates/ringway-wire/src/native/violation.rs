//! The ways in which a peer can break the protocol.

use std::fmt;

use super::{Flags, FrameKind, GoAwayCode, StreamId, Tag};

/// A violation of the protocol by a peer. The connection ends with a GOAWAY with this violation's
/// [`code`](Self::code), unless the peer ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    // Another protocol or version.
    /// The peer's first bytes are not the magic of this protocol.
    NotNative,
    /// The peer speaks another major version.
    WrongVersion {
        /// The peer's version.
        major: u8,
    },

    // Frames that are malformed.
    /// The frame has an unknown kind that may not be skipped.
    UnknownFrame {
        /// The number of the kind.
        code: u8,
    },
    /// The frame's flags are missing, contradict each other or are not allowed for its kind.
    UnexpectedFlags {
        /// The kind of frame.
        kind: FrameKind,
        /// The frame's flags.
        flags: Flags,
    },
    /// The frame names a stream although its kind does not allow one, or no valid one although it
    /// needs one.
    WrongStream {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream id in the frame.
        stream: StreamId,
    },
    /// The frame's length does not suit its kind, or is shorter than its parts.
    WrongLength {
        /// The kind of frame.
        kind: FrameKind,
        /// Length of the body in bytes.
        len: u32,
        /// Length of the metadata in bytes.
        meta_len: u16,
    },
    /// The frame's body is longer than any that is allowed.
    FrameTooLarge {
        /// Length of the body in bytes.
        len: u32,
        /// Largest allowed length in bytes.
        max: u32,
    },
    /// The frame's checksum does not match its contents.
    WrongChecksum {
        /// The checksum in the frame.
        sent: u32,
        /// The checksum of its contents.
        computed: u32,
    },
    /// The body of a SETTINGS frame is too long or does not consist of pairs.
    TornSettings {
        /// Length of the body in bytes.
        len: usize,
    },
    /// A setting is out of its range.
    BadSetting {
        /// The number of the setting.
        id: u16,
        /// The value.
        value: u32,
    },
    /// The body of a GOAWAY is too short for code and time.
    TornGoAway {
        /// Length of the body in bytes.
        len: usize,
    },
    /// The metadata ends in the middle of a piece, or the value of a piece is malformed.
    TornMetadata {
        /// The tag of the piece.
        tag: Tag,
    },

    // Frames that are not allowed in the current state.
    /// The first frame is not SETTINGS.
    SettingsExpected {
        /// The kind of the first frame.
        kind: FrameKind,
    },
    /// The peer acknowledged something that was not sent.
    UnexpectedAck {
        /// The kind of frame that was acknowledged, SETTINGS or PING.
        kind: FrameKind,
    },
    /// The frame has a kind that this side never receives.
    WrongDirection {
        /// The kind of frame.
        kind: FrameKind,
    },
    /// The frame names a stream that was never opened.
    NeverOpened {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// The request uses a slot beyond the announced number of streams.
    SlotOutOfRange {
        /// The slot.
        slot: u32,
        /// The announced number.
        max: u32,
    },
    /// The request uses a slot whose last call still runs, or an earlier generation.
    StreamInUse {
        /// The stream.
        stream: StreamId,
    },
    /// The frame belongs to a side of a stream that has already ended.
    AfterEnd {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// The frame starts a message before the last one was complete, or continues none.
    OutOfOrder {
        /// The kind of frame.
        kind: FrameKind,
        /// The stream.
        stream: StreamId,
    },
    /// The message is longer than its first fragment announced.
    LongerThanAnnounced {
        /// The stream.
        stream: StreamId,
        /// The announced length in bytes.
        announced: u32,
    },
    /// The client assigned a method number to a second name.
    MethodRebound {
        /// The method number.
        method: u32,
    },
    /// The client assigned a number above the allowed one.
    TooManyMethods {
        /// The largest allowed number.
        max: u32,
    },

    // Limits that are exceeded.
    /// The peer sent bytes beyond the stream's credit.
    CreditExceeded {
        /// The stream.
        stream: StreamId,
        /// Number of bytes beyond the credit.
        by: u64,
    },
    /// A credit is below its minimum or above its maximum.
    CreditOutOfRange {
        /// The credit that the stream would have, in bytes.
        credit: u64,
    },
    /// The peer sent too many frames of a kind in a short time.
    Flood {
        /// The kind of frame.
        kind: FrameKind,
    },

    // The peer's own end.
    /// The peer sent a GOAWAY that ends the connection at once.
    PeerLeft {
        /// The GOAWAY code; see [`GoAwayCode`].
        code: u32,
        /// The peer's reason, with control characters replaced.
        reason: String,
    },

    // Timeouts.
    /// The peer did not answer in time.
    Unanswered {
        /// The kind of frame that was not answered.
        kind: FrameKind,
    },
}

impl Violation {
    /// The GOAWAY code that ends the connection.
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
            Self::NotNative => write!(f, "the peer does not speak the native protocol RWY/1"),
            Self::WrongVersion { major } => {
                write!(f, "the peer speaks version {major} of the native protocol, not 1")
            }
            Self::UnknownFrame { code } => write!(f, "frame of unknown kind {code:#04x}"),
            Self::UnexpectedFlags { kind, flags } => {
                write!(f, "{kind:?} with invalid flags {flags:?}")
            }
            Self::WrongStream { kind, stream } => {
                write!(f, "{kind:?} must not name {stream} (id {:#x})", stream.raw())
            }
            Self::WrongLength { kind, len, meta_len } => {
                write!(f, "{kind:?} of {len} bytes with {meta_len} bytes of metadata")
            }
            Self::FrameTooLarge { len, max } => write!(f, "frame of {len} bytes, at most {max}"),
            Self::WrongChecksum { sent, computed } => {
                write!(f, "checksum {sent:#010x} on bytes whose sum is {computed:#010x}")
            }
            Self::TornSettings { len } => write!(f, "malformed Settings of {len} bytes"),
            Self::BadSetting { id, value } => write!(f, "setting {id} is {value}, out of range"),
            Self::TornGoAway { len } => write!(f, "malformed GoAway of {len} bytes"),
            Self::TornMetadata { tag } => write!(f, "malformed {tag:?} in metadata"),
            Self::SettingsExpected { kind } => write!(f, "{kind:?} instead of the first Settings"),
            Self::UnexpectedAck { kind } => write!(f, "ACK of a {kind:?} that was not sent"),
            Self::WrongDirection { kind } => write!(f, "{kind:?} in the wrong direction"),
            Self::NeverOpened { kind, stream } => {
                write!(f, "{kind:?} for {stream}, which was never opened")
            }
            Self::SlotOutOfRange { slot, max } => {
                write!(f, "Request in slot {slot}, but only {max} streams were announced")
            }
            Self::StreamInUse { stream } => {
                write!(f, "Request for {stream}, which is in use or was used before")
            }
            Self::AfterEnd { kind, stream } => write!(f, "{kind:?} for {stream} after its end"),
            Self::OutOfOrder { kind, stream } => write!(f, "{kind:?} for {stream} out of order"),
            Self::LongerThanAnnounced { stream, announced } => {
                write!(f, "message on {stream} longer than the {announced} bytes announced")
            }
            Self::MethodRebound { method } => {
                write!(f, "method number {method} assigned to a second name")
            }
            Self::TooManyMethods { max } => write!(f, "more than {max} method numbers"),
            Self::CreditExceeded { stream, by } => {
                write!(f, "{by} bytes beyond the credit of {stream}")
            }
            Self::CreditOutOfRange { credit } => {
                write!(f, "credit of {credit} bytes is out of range")
            }
            Self::Flood { kind } => write!(f, "too many {kind:?} frames in a short time"),
            Self::PeerLeft { code, reason } => {
                f.write_str("the peer has ended the connection: ")?;
                match GoAwayCode::from_code(*code) {
                    Some(known) => write!(f, "{known:?}")?,
                    None => write!(f, "code {code}")?,
                }
                if reason.is_empty() { Ok(()) } else { write!(f, ", {reason}") }
            }
            Self::Unanswered { kind } => write!(f, "the peer did not answer {kind:?} in time"),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::Violation;
    use crate::native::{Flags, FrameKind, GoAwayCode, StreamId, Tag};

    #[test]
    fn each_violation_has_its_text_and_goaway_code() {
        let stream = StreamId::new(3, 1);
        let flags = Flags::MORE | Flags::END;
        let cases = [
            (
                Violation::WrongVersion { major: 2 },
                GoAwayCode::Version,
                "the peer speaks version 2 of the native protocol, not 1",
            ),
            (
                Violation::UnexpectedFlags { kind: FrameKind::Data, flags },
                GoAwayCode::Protocol,
                "Data with invalid flags END|MORE",
            ),
            (
                Violation::WrongStream { kind: FrameKind::Ping, stream },
                GoAwayCode::Protocol,
                "Ping must not name slot 3 generation 1 (id 0x3001)",
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
                "the peer did not answer Ping in time",
            ),
        ];
        for (violation, code, text) in cases {
            assert_eq!((violation.code(), violation.to_string().as_str()), (code, text));
        }
    }
}
