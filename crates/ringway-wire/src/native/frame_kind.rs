//! What a frame is (section 2).

/// The kind of a frame; the number on the wire stands beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// `01`: what its sender accepts, or the ACK of that.
    Settings,
    /// `02`: a nonce to return; the ACK returns it.
    Ping,
    /// `03`: the connection is about to end.
    GoAway,
    /// `04`: how many requests may be in flight.
    Lease,
    /// `10`: opens a stream.
    Request,
    /// `11`: ends a stream.
    Response,
    /// `12`: a message of a stream, or a fragment of one.
    Data,
    /// `13`: more bytes may be sent on a stream.
    Credit,
    /// `14`: the initiator gives a stream up.
    Rst,
    /// A kind of a later version that may be skipped: its high bit is set.
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

    /// The kind with this number; `None` where an unknown one must not be skipped.
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
