//! Why a connection ends (sections 8 and 9).

use super::Violation;

/// The body of a GOAWAY frame.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::{GoAway, GoAwayCode};
///
/// let farewell = GoAway { code: GoAwayCode::MaxAge.code(), drain_ms: 5_000, reason: b"restart" };
/// let mut body = Vec::new();
/// farewell.encode(&mut body);
/// assert_eq!(GoAway::decode(&body)?, farewell);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoAway<'a> {
    /// A [`GoAwayCode`], or the number of one that a later version added.
    pub code: u32,
    /// Milliseconds that open streams still have; 0 when the connection closes now.
    pub drain_ms: u32,
    /// A sentence for people, UTF-8 by agreement; at most 1,024 bytes.
    pub reason: &'a [u8],
}

impl<'a> GoAway<'a> {
    /// Reads the body of a GOAWAY frame.
    ///
    /// # Errors
    ///
    /// [`TornGoAway`](Violation::TornGoAway) when it has fewer than eight bytes.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let [c0, c1, c2, c3, d0, d1, d2, d3, ref reason @ ..] = *body else {
            return Err(Violation::TornGoAway { len: body.len() });
        };
        Ok(Self {
            code: u32::from_le_bytes([c0, c1, c2, c3]),
            drain_ms: u32::from_le_bytes([d0, d1, d2, d3]),
            reason,
        })
    }

    /// Appends the body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code.to_le_bytes());
        out.extend_from_slice(&self.drain_ms.to_le_bytes());
        out.extend_from_slice(self.reason);
    }
}

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

/// Bytes of the body in front of the reason.
pub(super) const GO_AWAY_FIXED_LEN: usize = 8;

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
    use super::{CODES, GoAway, GoAwayCode};
    use crate::native::Violation;

    #[test]
    fn codes_are_their_places_in_the_table() {
        for (number, code) in (0..).zip(CODES) {
            assert_eq!(code.code(), number);
            assert_eq!(GoAwayCode::from_code(number), Some(code));
        }
        assert_eq!(GoAwayCode::from_code(11), None);
    }

    #[test]
    fn body() {
        let mut bytes = vec![];
        GoAway { code: 2, drain_ms: 0x0102_0304, reason: b"why" }.encode(&mut bytes);
        assert_eq!(bytes, b"\x02\0\0\0\x04\x03\x02\x01why");
        for len in 0..8 {
            assert_eq!(GoAway::decode(&bytes[..len]), Err(Violation::TornGoAway { len }));
        }
        let without_reason = GoAway { code: 2, drain_ms: 0x0102_0304, reason: b"" };
        assert_eq!(GoAway::decode(&bytes[..8]), Ok(without_reason));
    }
}
