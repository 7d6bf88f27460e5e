//! Numbers as decimal text, without an allocation.

/// A number's decimal digits, and its sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digits {
    bytes: [u8; LEN],
    start: u8,
}

/// The digits of 2^64 - 1, or the sign and those of -2^63.
const LEN: usize = 20;

impl Digits {
    #[inline]
    pub(super) fn new(mut number: u64) -> Self {
        let mut digits = Self { bytes: [b'0'; LEN], start: LEN as u8 };
        loop {
            digits.put(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    #[inline]
    pub(super) fn signed(number: i64) -> Self {
        let mut digits = Self::new(number.unsigned_abs());
        if number < 0 {
            digits.put(b'-');
        }
        digits
    }

    #[inline]
    fn put(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[usize::from(self.start)] = byte;
    }

    #[inline]
    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[usize::from(self.start)..]).expect("digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn numbers_are_written_as_everybody_writes_them() {
        for number in [0, 1, -1, 9, 10, -10, 99, 100, -32_700, i64::MAX, i64::MIN] {
            assert_eq!(Digits::signed(number).as_str(), number.to_string());
        }
        for shift in 0..64 {
            let number = u64::MAX >> shift;
            assert_eq!(Digits::new(number).as_str(), number.to_string());
        }
    }
}
