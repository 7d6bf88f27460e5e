//! The kinds of frames (section 2).

/// The kind of a frame, with its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// `01`: settings of the sender, or the ACK of settings.
    Settings,
    /// `02`: asks for an ACK with the same nonce, or is that ACK.
    Ping,
    /// `03`: announces that the connection will end.
    GoAway,
    /// `04`: sets how many requests may be in flight.
    Lease,
    /// `10`: opens a stream.
    Request,
    /// `11`: ends a call.
    Response,
    /// `12`: a message of a stream, or a fragment of one.
    Data,
    /// `13`: allows the peer to send more bytes on a stream.
    Credit,
    /// `14`: the client cancels a call.
    Rst,
    /// A kind of a later version that may be skipped, since its high bit is set.
    Unknown(u8),
}

impl FrameKind {
    /// The number on the wire.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Settings => 0x01,
            Self::Ping => 0x02,
            Self::GoAway => 0x03,
            Self::Lease => 0x04,
            Self::Request => 0x10,
            Self::Response => 0x11,
            Self::Data => 0x12,
            Self::Credit => 0x13,
            Self::Rst => 0x14,
            Self::Unknown(code) => code,
        }
    }

    /// The kind with this number; `None` if it is unknown and must not be skipped.
    #[inline]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x01 => Self::Settings,
            0x02 => Self::Ping,
            0x03 => Self::GoAway,
            0x04 => Self::Lease,
            0x10 => Self::Request,
            0x11 => Self::Response,
            0x12 => Self::Data,
            0x13 => Self::Credit,
            0x14 => Self::Rst,
            0x80.. => Self::Unknown(code),
            _ => return None,
        })
    }
}
