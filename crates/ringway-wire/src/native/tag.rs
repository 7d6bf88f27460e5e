//! Tags of metadata (section 4).

/// The meaning of a piece of metadata; the number on the wire stands beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// `00`: a key and a value of the user's.
    Entry,
    /// `01`: `package.Service/Method`.
    Method,
    /// `02`: the credentials of the call.
    Authorization,
    /// `03`: the timeout in microseconds, a varint, instead of the request head's.
    TimeoutUs,
    /// `04`: what went wrong, UTF-8.
    StatusMessage,
    /// `05`: details of what went wrong, opaque.
    StatusDetails,
    /// `06`: the call was not executed and can be repeated safely.
    Refused,
    /// `07`: milliseconds to wait before a retry, a zigzag varint; −1 forbids it.
    Pushback,
    /// `80`: trace id, span id and flags.
    TraceParent,
    /// `81`: vendors' additions to the trace.
    TraceState,
    /// `82`: the load of the side that answers.
    LoadReport,
    /// A tag of a later version that this one must not skip: its stream ends UNIMPLEMENTED.
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

    /// The tag with this number; `None` where an unknown one is to be skipped.
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
    fn every_tag_goes_both_ways() {
        for code in 0..=0xff {
            let tag = Tag::from_code(code);
            assert_eq!(tag.map(Tag::code), (code < 0x83).then_some(code));
            let unknown = matches!(tag, Some(Tag::Unknown(_)));
            assert_eq!(unknown, (0x08..0x80).contains(&code));
        }
    }
}
