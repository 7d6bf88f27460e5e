//! GOAWAY codes, the reasons for which a connection ends (section 9).

/// The reason for which a side ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GoAwayCode {
    /// 0: nothing is wrong; this side shuts down or drains.
    NoError = 0,
    /// 1: the peer speaks another major version.
    Version = 1,
    /// 2: the peer broke the protocol.
    Protocol = 2,
    /// 3: the peer sent a frame above the announced limits.
    TooLarge = 3,
    /// 4: the peer sent bytes beyond its credit, or granted credit beyond the limit.
    FlowControl = 4,
    /// 5: a checksum did not match.
    Checksum = 5,
    /// 6: a setting is out of range.
    BadSettings = 6,
    /// 7: the peer sent too many RST, PING, SETTINGS or other frames without content.
    TooManyResets = 7,
    /// 8: an answer did not arrive in time.
    Timeout = 8,
    /// 9: the connection has reached its maximum age.
    MaxAge = 9,
    /// 10: the sender had an internal error.
    Internal = 10,
}

impl GoAwayCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The code with this number; `None` if this version does not know it.
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
    fn codes_are_listed_in_the_order_of_their_numbers() {
        for (number, code) in (0..).zip(CODES) {
            assert_eq!(code.code(), number);
            assert_eq!(GoAwayCode::from_code(number), Some(code));
        }
        assert_eq!(GoAwayCode::from_code(11), None);
    }
}
