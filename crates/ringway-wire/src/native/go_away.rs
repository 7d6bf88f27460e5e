//! The body of GOAWAY, the frame that ends a connection (sections 8 and 9).

use super::Violation;

/// The body of a GOAWAY frame.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::{GoAway, GoAwayCode};
///
/// let go_away = GoAway { code: GoAwayCode::MaxAge.code(), drain_ms: 5_000, reason: b"restart" };
/// let mut body = Vec::new();
/// go_away.encode(&mut body);
/// assert_eq!(GoAway::decode(&body)?, go_away);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoAway<'a> {
    /// A [`GoAwayCode`](super::GoAwayCode), or a number that a later version added.
    pub code: u32,
    /// Milliseconds that open streams have left; 0 when the connection closes now.
    pub drain_ms: u32,
    /// Reason for people to read, by agreement in UTF-8; at most 1,024 bytes.
    pub reason: &'a [u8],
}

impl<'a> GoAway<'a> {
    /// Reads the body of a GOAWAY frame.
    ///
    /// # Errors
    ///
    /// Returns [`TornGoAway`](Violation::TornGoAway) when the body has fewer than eight bytes.
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

/// Length of the body before the reason.
pub(super) const GO_AWAY_FIXED_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::GoAway;
    use crate::native::Violation;

    #[test]
    fn a_body_round_trips_and_a_short_one_is_rejected() {
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
