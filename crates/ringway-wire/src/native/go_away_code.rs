//! Why a connection ends (section 9).

/// Why a side ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GoAwayCode {
    /// 0: nothing is wrong; the side shuts down or drains.
    NoError = 0,
    /// 1: the peer speaks another major version.
    Version = 1,
    /// 2: the peer broke the protocol.
    Protocol = 2,
    /// 3: a frame beyond the announced limits.
    TooLarge = 3,
    /// 4: bytes beyond the credit, or credit beyond its bound.
    FlowControl = 4,
    /// 5: a checksum did not match.
    Checksum = 5,
    /// 6: a setting out of its range.
    BadSettings = 6,
    /// 7: more RST, PING, SETTINGS or frames that bring nothing than any sane peer sends.
    TooManyResets = 7,
    /// 8: an answer did not come in time.
    Timeout = 8,
    /// 9: the connection is as old as it may become.
    MaxAge = 9,
    /// 10: the sender has a fault.
    Internal = 10,
}

impl GoAwayCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The code with this number, if this version knows it.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        CODES.into_iter().find(|known| known.code() == code)
    }
}

const CODES: [GoAwayCode; 11] = [
    GoAwayCode::NoError,
    GoAwayCode::Version,
    GoAwayCode::Protocol,
    GoAwayCode::TooLarge,
    GoAwayCode::FlowControl,
    GoAwayCode::Checksum,
    GoAwayCode::BadSettings,
    GoAwayCode::TooManyResets,
    GoAwayCode::Timeout,
    GoAwayCode::MaxAge,
    GoAwayCode::Internal,
];

#[cfg(test)]
mod tests {
    use super::{CODES, GoAwayCode};

    #[test]
    fn codes_are_their_places_in_the_table() {
        for (number, code) in (0..).zip(CODES) {
            assert_eq!(code.code(), number);
            assert_eq!(GoAwayCode::from_code(number), Some(code));
        }
        assert_eq!(GoAwayCode::from_code(11), None);
    }
}
