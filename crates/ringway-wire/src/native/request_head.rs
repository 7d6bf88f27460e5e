//! The fixed fields at the start of every REQUEST (section 3).

use crate::limits::{NATIVE_CREDIT_MAX, NATIVE_INITIAL_CREDIT_MIN};

use super::Violation;

/// Length of a request head in bytes.
pub const REQUEST_HEAD_LEN: usize = 16;

/// The fixed fields of a call.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::RequestHead;
///
/// let head = RequestHead { method: 1, timeout_us: 250_000, ..RequestHead::default() };
/// assert_eq!(RequestHead::decode(&head.encode())?, head);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// The connection's number for the method; 0 if the name is sent with every call.
    pub method: u32,
    /// Timeout in microseconds, counted from the call's arrival; 0 for none.
    pub timeout_us: u32,
    /// The encoding of the client's messages: 0 raw, 1 protobuf, 2 JSON, from 128 up by agreement.
    pub codec: u8,
    /// Reserved for compression: of these messages in the low half, accepted in replies in the high
    /// half.
    pub compression: u8,
    /// Attempt number: 0 for the first, then the number of the retry or hedge.
    pub attempt: u8,
    /// Priority: 0 is normal, and calls with higher values are shed first.
    pub priority: u8,
    /// Reply bytes that may be sent before a CREDIT arrives.
    pub initial_credit: u32,
}

impl RequestHead {
    /// Encodes the head for the wire.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEAD_LEN] {
        let small = u32::from_le_bytes([self.codec, self.compression, self.attempt, self.priority]);
        let whole = u128::from(self.method)
            | u128::from(self.timeout_us) << 32
            | u128::from(small) << 64
            | u128::from(self.initial_credit) << 96;
        whole.to_le_bytes()
    }

    /// Reads a head.
    ///
    /// # Errors
    ///
    /// Returns [`CreditOutOfRange`](Violation::CreditOutOfRange) when the initial credit is below
    /// 65,536 or above 2^31 − 1.
    #[inline]
    pub fn decode(bytes: &[u8; REQUEST_HEAD_LEN]) -> Result<Self, Violation> {
        let whole = u128::from_le_bytes(*bytes);
        let [codec, compression, attempt, priority] = ((whole >> 64) as u32).to_le_bytes();
        let head = Self {
            method: whole as u32,
            timeout_us: (whole >> 32) as u32,
            codec,
            compression,
            attempt,
            priority,
            initial_credit: (whole >> 96) as u32,
        };
        if (NATIVE_INITIAL_CREDIT_MIN..=NATIVE_CREDIT_MAX).contains(&head.initial_credit) {
            Ok(head)
        } else {
            Err(Violation::CreditOutOfRange { credit: u64::from(head.initial_credit) })
        }
    }
}

impl Default for RequestHead {
    /// The head of a raw first attempt without a timeout, with the smallest allowed credit.
    fn default() -> Self {
        Self {
            method: 0,
            timeout_us: 0,
            codec: 0,
            compression: 0,
            attempt: 0,
            priority: 0,
            initial_credit: NATIVE_INITIAL_CREDIT_MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestHead;
    use crate::native::Violation;

    #[test]
    fn every_field_is_encoded_at_its_offset() {
        let head = RequestHead {
            method: 0x0403_0201,
            timeout_us: 0x0807_0605,
            codec: 9,
            compression: 10,
            attempt: 11,
            priority: 12,
            initial_credit: 0x100f_0e0d,
        };
        let bytes = head.encode();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(RequestHead::decode(&bytes), Ok(head));
    }

    #[test]
    fn credit_out_of_range_is_rejected() {
        for (credit, valid) in
            [(65_535, false), (65_536, true), (0x7fff_ffff, true), (0x8000_0000, false)]
        {
            let head = RequestHead { initial_credit: credit, ..RequestHead::default() };
            let error = Violation::CreditOutOfRange { credit: u64::from(credit) };
            let expected = if valid { Ok(head) } else { Err(error) };
            assert_eq!(RequestHead::decode(&head.encode()), expected);
        }
    }
}
