//! Why a connection ends.

use std::fmt;

/// The code of a Close frame, RFC 6455 section 7.4.
///
/// ```
/// use ringway_wire::websocket::CloseCode;
///
/// assert_eq!(CloseCode::AWAY.to_string(), "1001");
/// assert!(CloseCode::from(4000).may_be_sent());
/// assert!(!CloseCode::NONE.may_be_sent());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// All is done.
    pub const NORMAL: Self = Self(1000);
    /// The server stops, or the page is left.
    pub const AWAY: Self = Self(1001);
    /// The peer has broken the protocol.
    pub const PROTOCOL: Self = Self(1002);
    /// Messages of this kind, text or binary, are not taken.
    pub const UNSUPPORTED: Self = Self(1003);
    /// The Close frame had no code. It is never sent.
    pub const NONE: Self = Self(1005);
    /// A text was not UTF-8, or a message not what it should be.
    pub const INVALID: Self = Self(1007);
    /// A message is against the rules of whoever got it.
    pub const POLICY: Self = Self(1008);
    /// A message is longer than is taken.
    pub const TOO_LONG: Self = Self(1009);
    /// The server has failed.
    pub const INTERNAL: Self = Self(1011);
    /// The server is overloaded: come again later.
    pub const TRY_AGAIN: Self = Self(1013);

    /// The bare number.
    #[must_use]
    pub const fn as_u16(self) -> u16 {
        self.0
    }

    /// Whether it may stand in a Close frame: it is defined and not reserved for the ends' own use
    /// (section 7.4.1, and the registry of IANA), or left to libraries and programs (3000 to 4999).
    #[must_use]
    pub const fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

impl From<u16> for CloseCode {
    fn from(code: u16) -> Self {
        Self(code)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
