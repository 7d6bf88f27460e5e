//! The `grpc-timeout` field: up to eight digits and a unit.

use std::time::Duration;

use super::lines;
use crate::http2::Line;

/// Largest number of digits.
const DIGITS_MAX: usize = 8;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The units used for writing, in nanoseconds.
const NANOS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', SECOND),
    (b'M', 60 * SECOND),
    (b'H', 3_600 * SECOND),
];

/// Parses the value of a `grpc-timeout` field; longer timeouts than five centuries are cut to that.
#[must_use]
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    parse_nanos(value).map(Duration::from_nanos)
}

/// As [`parse_timeout`], in nanoseconds.
#[inline]
pub(super) fn parse_nanos(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let nanos = match unit {
        b'n' => 1,
        b'u' => 1_000,
        b'm' => 1_000_000,
        b'S' => SECOND,
        b'M' => 60 * SECOND,
        b'H' => 3_600 * SECOND,
        _ => return None,
    };
    let zeros = u64::from_be_bytes([b'0'; DIGITS_MAX]);
    let behind_zeros = digits.iter().fold(zeros, |all, &digit| all << 8 | u64::from(digit));
    number(behind_zeros.swap_bytes()).map(|count| count.saturating_mul(nanos))
}

/// Parses eight digits, with the first one in the lowest byte: combines digits to pairs, pairs to
/// fours, and those to the number.
#[inline]
fn number(digits: u64) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Adding 6 moves bytes above '9' into the next group of sixteen.
    let high = digits & (EACH * 0xf0);
    let high_after = digits.wrapping_add(EACH * 6) & (EACH * 0xf0);
    if high != EACH * 0x30 || high_after != EACH * 0x30 {
        return None;
    }
    let pairs = (digits & (EACH * 0x0f)).wrapping_mul((10 << 8) + 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul((100 << 16) + 1) >> 16;
    let all = (fours & 0x0000_ffff_0000_ffff).wrapping_mul((10_000 << 32) + 1) >> 32;
    Some(all)
}

/// A value for a `grpc-timeout` field, which needs no heap memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutText {
    bytes: [u8; DIGITS_MAX + 1],
    start: u8,
}

impl TimeoutText {
    /// Formats `timeout` in the finest unit that fits, and at least one nanosecond. It is rounded up, so
    /// that the peer does not give up the call before us.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1);
        let fits = |&&(_, unit): &&(u8, u64)| nanos.div_ceil(unit) < 10_u64.pow(DIGITS_MAX as u32);
        let &(unit, size) = NANOS.iter().find(fits).unwrap_or(&NANOS[5]);
        let mut text = Self { bytes: [unit; DIGITS_MAX + 1], start: DIGITS_MAX as u8 };
        let mut left = nanos.div_ceil(size);
        loop {
            text.start -= 1;
            text.bytes[usize::from(text.start)] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                return text;
            }
        }
    }

    /// The text of the value.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// Calls in a row after which their timeout counts as usual. Calls that have waited together have the same
/// rest of theirs, so a few are no sign.
const USUAL_AFTER: u32 = 16;

/// The timeouts of a client's calls. Most callers set the same one for each call, so one that comes often in a
/// row is added to the server's table: it is one byte from then on, and neither end formats or
/// parses it again.
#[derive(Debug, Default)]
pub(super) struct Timeouts {
    last: Duration,
    repeats: u32,
    usual: Vec<(Duration, TimeoutText)>,
}

impl Timeouts {
    /// The field for `timeout`. `text` holds its value if that is not a usual one.
    #[inline]
    pub(super) fn line<'t>(
        &'t mut self,
        timeout: Duration,
        text: &'t mut Option<TimeoutText>,
    ) -> Line<'t> {
        match self.usual.iter().position(|(usual, _)| *usual == timeout) {
            Some(number) => lines::usual_timeout(number, &self.usual[number].1),
            None => self.unusual_line(timeout, text),
        }
    }

    fn unusual_line<'t>(
        &mut self,
        timeout: Duration,
        text: &'t mut Option<TimeoutText>,
    ) -> Line<'t> {
        let value = text.insert(TimeoutText::new(timeout));
        self.repeats = if self.last == timeout { self.repeats + 1 } else { 1 };
        self.last = timeout;
        if self.repeats >= USUAL_AFTER && self.usual.len() < lines::USUAL_TIMEOUTS {
            self.usual.push((timeout, *value));
        }
        lines::timeout(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_trip_in_the_finest_unit_that_fits() {
        let check = |nanos: u64, text: &str, back: u64| {
            let written = TimeoutText::new(Duration::from_nanos(nanos));
            assert_eq!(str::from_utf8(written.as_bytes()), Ok(text));
            assert_eq!(parse_timeout(text.as_bytes()), Some(Duration::from_nanos(back)));
        };
        check(0, "1n", 1);
        check(1, "1n", 1);
        check(99_999_999, "99999999n", 99_999_999);
        check(100_000_999, "100001u", 100_001_000);
        check(99_999_999_001, "100000m", 100_000_000_000);
        check(10_000_000_000, "10000000u", 10_000_000_000);
        check(100_000_000_000, "100000m", 100_000_000_000);
        check(100_000_000_000_000, "100000S", 100_000_000_000_000);
        check(u64::MAX, "5124096H", u64::MAX);
        for nanos in (1..=99_999_999).step_by(9_973) {
            check(nanos, &format!("{nanos}n"), nanos);
        }
    }

    #[test]
    fn malformed_timeouts_are_rejected() {
        for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
            for at in 0..DIGITS_MAX {
                let mut value = *b"12345678n";
                value[at] = byte;
                assert_eq!(parse_timeout(&value), None, "{byte:#x} at {at}");
            }
        }
        for text in ["", "n", "1", "1x", "123456789n", "-1n", "1 n", "1.5S", "1nn"] {
            assert_eq!(parse_timeout(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_timeout(b"0n"), Some(Duration::ZERO));
        let most = parse_timeout(b"99999999H").expect("legal");
        assert_eq!(most, Duration::from_nanos(u64::MAX));
    }

    /// Whether the field of a call with this timeout is sent as a usual one.
    fn is_usual(timeouts: &mut Timeouts, timeout: Duration) -> bool {
        let (mut text, value) = (None, TimeoutText::new(timeout));
        match timeouts.line(timeout, &mut text) {
            Line::Fixed { value: written, .. } => {
                assert_eq!(written, value.as_bytes());
                true
            }
            line => {
                assert_eq!(line, lines::timeout(&value));
                false
            }
        }
    }

    #[test]
    fn a_timeout_that_comes_often_in_a_row_is_usual_and_few_can_be() {
        let mut timeouts = Timeouts::default();
        for seconds in 1..=lines::USUAL_TIMEOUTS as u64 + 1 {
            let timeout = Duration::from_secs(seconds);
            assert!((0..USUAL_AFTER).all(|_| !is_usual(&mut timeouts, timeout)));
            let has_room = seconds <= lines::USUAL_TIMEOUTS as u64;
            assert_eq!(is_usual(&mut timeouts, timeout), has_room);
        }
        assert!(is_usual(&mut timeouts, Duration::from_secs(2)));
        assert!(!is_usual(&mut timeouts, Duration::from_millis(2)));
    }

    #[test]
    fn timeouts_that_alternate_are_not_usual() {
        let mut timeouts = Timeouts::default();
        for call in 0..100 {
            assert!(!is_usual(&mut timeouts, Duration::from_secs(call % 2)));
        }
    }
}
