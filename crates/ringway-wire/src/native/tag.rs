//! Tags of metadata (section 4).

/// The meaning of a piece of metadata, with its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// `00`: a key and a value of the application.
    Entry,
    /// `01`: the name of the method, `package.Service/Method`.
    Method,
    /// `02`: the credentials of the call.
    Authorization,
    /// `03`: the timeout in microseconds as a varint, in place of the request head's.
    TimeoutUs,
    /// `04`: the status message, in UTF-8.
    StatusMessage,
    /// `05`: details of the status, opaque.
    StatusDetails,
    /// `06`: the call was not executed and can be repeated safely.
    Refused,
    /// `07`: milliseconds to wait before a retry, as a zigzag varint; −1 forbids a retry.
    Pushback,
    /// `80`: the trace context: trace id, span id and flags.
    TraceParent,
    /// `81`: the vendor-specific trace state.
    TraceState,
    /// `82`: the load of the server.
    LoadReport,
    /// A tag of a later version that must not be skipped: the stream ends UNIMPLEMENTED.
    Unknown(u8),
}

impl Tag {
    /// The number on the wire.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Entry => 0x00,
            Self::Method => 0x01,
            Self::Authorization => 0x02,
            Self::TimeoutUs => 0x03,
            Self::StatusMessage => 0x04,
            Self::StatusDetails => 0x05,
            Self::Refused => 0x06,
            Self::Pushback => 0x07,
            Self::TraceParent => 0x80,
            Self::TraceState => 0x81,
            Self::LoadReport => 0x82,
            Self::Unknown(code) => code,
        }
    }

    /// The tag with this number; `None` if it is unknown and may be skipped.
    #[inline]
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Entry,
            0x01 => Self::Method,
            0x02 => Self::Authorization,
            0x03 => Self::TimeoutUs,
            0x04 => Self::StatusMessage,
            0x05 => Self::StatusDetails,
            0x06 => Self::Refused,
            0x07 => Self::Pushback,
            0x80 => Self::TraceParent,
            0x81 => Self::TraceState,
            0x82 => Self::LoadReport,
            0x83.. => return None,
            _ => Self::Unknown(code),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn every_tag_round_trips_through_its_number() {
        for code in 0..=0xff {
            let tag = Tag::from_code(code);
            assert_eq!(tag.map(Tag::code), (code < 0x83).then_some(code));
            let unknown = matches!(tag, Some(Tag::Unknown(_)));
            assert_eq!(unknown, (0x08..0x80).contains(&code));
        }
    }
}
