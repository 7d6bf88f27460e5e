//! The ids of requests.

use std::borrow::Cow;
use std::fmt;

use super::digits::Digits;
use super::text::unescape;

/// The id of a request, as JSON: a string, a number or null.
///
/// It is kept as it was written, so that a server's reply has it byte for byte: a number may have more digits
/// than any type of ours. Two ids are equal if they are written alike.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::{Id, NumberedId};
///
/// let number = NumberedId::new(7);
/// assert_eq!(number.id().as_str(), "7");
/// assert_eq!(number.id().number(), Some(7));
/// assert_eq!(Id::parse("12345678901234567890123").and_then(|id| id.number()), None);
/// assert_eq!(Id::parse(r#""a\u0062c""#).and_then(|id| id.text()).as_deref(), Some("abc"));
/// assert_eq!(Id::parse("true"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// The id of a reply to a request whose id could not be read.
    pub const NULL: Self = Self("null");

    /// By its JSON, without white space around it. `None` if that is no id.
    #[must_use]
    pub fn parse(json: &'a str) -> Option<Self> {
        let id = Self::of_value(json)?;
        let mut scanner = super::scanner::Scanner::new(json);
        (scanner.value() == Ok(json)).then_some(id)
    }

    /// By a value that was found to be JSON.
    #[inline]
    pub(super) fn of_value(value: &'a str) -> Option<Self> {
        matches!(value.as_bytes().first()?, b'"' | b'-' | b'0'..=b'9' | b'n').then_some(Self(value))
    }

    /// Its JSON.
    #[inline]
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// The number that it is, if it is a whole one that fits and is written as we write numbers.
    #[inline]
    #[must_use]
    pub fn number(self) -> Option<u64> {
        // Neither a sign nor leading zeros, which are no JSON: one number is written in one way.
        let is_short = self.0.len() <= MAX_LEN;
        if !is_short || !self.0.as_bytes().first()?.is_ascii_digit() {
            return None;
        }
        self.0.bytes().try_fold(0_u64, |number, digit| {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number.checked_mul(10)?.checked_add(u64::from(digit))
        })
    }

    /// The text that it is, if it is a string.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        self.0.strip_prefix('"')?.strip_suffix('"').map(unescape)
    }
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A number as an [`Id`], which a client counts its requests with.
#[derive(Debug, Clone, Copy)]
pub struct NumberedId(Digits);

impl NumberedId {
    /// The id with this number.
    #[inline]
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self(Digits::new(number))
    }

    /// It, to be written.
    #[inline]
    #[must_use]
    pub fn id(&self) -> Id<'_> {
        Id(self.0.as_str())
    }
}

/// Digits of the longest number.
const MAX_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_strings_numbers_and_null() {
        for json in
            ["null", "0", "-1", "1.5", "1e9", "\"\"", "\"a b\"", "123456789012345678901234567890"]
        {
            assert_eq!(Id::parse(json).map(Id::as_str), Some(json));
        }
        for json in [
            "", "true", "false", "[]", "{}", " 1", "1 ", "01", "\"", "\"a", "nul", "1,2",
            "\"a\"b\"",
        ] {
            assert_eq!(Id::parse(json), None, "{json}");
        }
        assert!(Id::parse("null").is_some_and(Id::is_null));
        assert!(!Id::parse("\"null\"").is_some_and(Id::is_null));
    }

    #[test]
    fn numbers_come_back_and_others_are_none() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            let id = NumberedId::new(number);
            assert_eq!(id.id().as_str(), number.to_string());
            assert_eq!(id.id().number(), Some(number));
        }
        for json in [
            "18446744073709551616",
            "99999999999999999999",
            "-1",
            "-0",
            "1.0",
            "1e3",
            "\"1\"",
            "null",
        ] {
            assert_eq!(Id::parse(json).expect("an id").number(), None, "{json}");
        }
    }
}
