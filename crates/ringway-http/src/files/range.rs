//! The requested part of a file: RFC 9110 section 14.

use std::ops::Range;

use http::HeaderMap;
use http::header::RANGE;

/// The part that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ranged {
    /// The whole file: no range, or one that is ignored, such as several ranges, which few clients request.
    Whole,
    Part(Range<u64>),
    /// The range begins after the end of the file.
    Outside,
}

pub(super) fn ranged(headers: &HeaderMap, length: u64) -> Ranged {
    let mut values = headers.get_all(RANGE).into_iter();
    match (values.next().and_then(|value| value.to_str().ok()), values.next()) {
        (Some(range), None) => parse(range, length).unwrap_or(Ranged::Whole),
        _ => Ranged::Whole,
    }
}

fn parse(range: &str, length: u64) -> Option<Ranged> {
    let (unit, range) = range.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    if first.is_empty() {
        return Some(match number(last)? {
            0 => Ranged::Outside,
            _ if length == 0 => Ranged::Whole,
            last => Ranged::Part(length.saturating_sub(last)..length),
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some(match first < length {
        true => Ranged::Part(first..last.saturating_add(1).min(length)),
        false => Ranged::Outside,
    })
}

/// Reads a number; one that exceeds `u64` lies after the end of every file.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_part_of_the_file_or_outside_or_ignored() {
        for (range, expected) in [
            ("bytes=0-0", Ranged::Part(0..1)),
            ("bytes=0-", Ranged::Part(0..100)),
            ("BYTES=10-19", Ranged::Part(10..20)),
            ("bytes=90-200", Ranged::Part(90..100)),
            ("bytes=99-99", Ranged::Part(99..100)),
            ("bytes=0-99999999999999999999999", Ranged::Part(0..100)),
            ("bytes=0-18446744073709551615", Ranged::Part(0..100)),
            ("bytes=-1", Ranged::Part(99..100)),
            ("bytes=-1000", Ranged::Part(0..100)),
            ("bytes=100-", Ranged::Outside),
            ("bytes=99999999999999999999999-", Ranged::Outside),
            ("bytes=-0", Ranged::Outside),
            ("bytes=20-10", Ranged::Whole),
            ("bytes=-", Ranged::Whole),
            ("bytes=", Ranged::Whole),
            ("bytes", Ranged::Whole),
            ("bytes=a-b", Ranged::Whole),
            ("bytes=+1-2", Ranged::Whole),
            ("bytes=--1", Ranged::Whole),
            ("bytes=0-1,5-6", Ranged::Whole),
            ("lines=0-1", Ranged::Whole),
        ] {
            let headers = HeaderMap::from_iter([(RANGE, range.try_into().expect("a value"))]);
            assert_eq!(ranged(&headers, 100), expected, "{range}");
        }
    }

    #[test]
    fn an_empty_file_has_no_parts() {
        for (range, expected) in [
            ("bytes=0-", Ranged::Outside),
            ("bytes=0-0", Ranged::Outside),
            ("bytes=-5", Ranged::Whole),
            ("bytes=-0", Ranged::Outside),
        ] {
            let headers = HeaderMap::from_iter([(RANGE, range.try_into().expect("a value"))]);
            assert_eq!(ranged(&headers, 0), expected, "{range}");
        }
    }
}
