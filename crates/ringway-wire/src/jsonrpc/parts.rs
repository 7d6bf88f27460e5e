//! The parts of JSON that was checked.

use std::borrow::Cow;

use super::scanner::Scanner;
use super::text::unescape;

/// The elements of an array that was checked to be JSON; none of what is no array.
///
/// ```
/// use ringway_wire::jsonrpc::elements;
///
/// let parts: Vec<_> = elements(r#"[1, [2,3],{"a":4}]"#).collect();
/// assert_eq!(parts, ["1", "[2,3]", r#"{"a":4}"#]);
/// ```
pub fn elements(json: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::new(json);
    let mut goes_on = scanner.take(b'[');
    std::iter::from_fn(move || {
        if !goes_on || scanner.peek() == Some(b']') {
            return None;
        }
        let element = scanner.value().ok()?;
        goes_on = scanner.take(b',');
        Some(element)
    })
}

/// The one element of an array that was checked to be JSON; `None` if it has none or more.
#[inline]
#[must_use]
pub fn only_element(json: &str) -> Option<&str> {
    let mut scanner = Scanner::new(json);
    if !scanner.take(b'[') || scanner.peek() == Some(b']') {
        return None;
    }
    let element = scanner.value().ok()?;
    (scanner.peek() == Some(b']')).then_some(element)
}

/// The members of an object that was checked to be JSON, with their names; none of what is no object.
///
/// ```
/// use ringway_wire::jsonrpc::members;
///
/// let mut parts = members(r#"{"a\u0062": 1}"#);
/// assert_eq!(parts.next(), Some(("ab".into(), "1")));
/// assert_eq!(parts.next(), None);
/// ```
pub fn members(json: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let mut scanner = Scanner::new(json);
    let mut goes_on = scanner.take(b'{');
    std::iter::from_fn(move || {
        if !goes_on || scanner.peek() == Some(b'}') {
            return None;
        }
        let name = scanner.value().ok()?;
        if !scanner.take(b':') {
            return None;
        }
        let value = scanner.value().ok()?;
        goes_on = scanner.take(b',');
        Some((unescape(name.strip_prefix('"')?.strip_suffix('"')?), value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_slices_of_the_whole() {
        let list = |json| elements(json).collect::<Vec<_>>();
        assert_eq!(list(r#" [ "a,]" , [1,[2]] ,{} ] "#), [r#""a,]""#, "[1,[2]]", "{}"]);
        assert!(list("[]").is_empty() && list("{}").is_empty() && list("7").is_empty());
        for (json, expected) in [
            ("[1]", Some("1")),
            ("[ [2] ]", Some("[2]")),
            ("[]", None),
            ("[1,2]", None),
            ("{}", None),
        ] {
            assert_eq!(only_element(json), expected, "{json}");
        }
        let all: Vec<_> = members(r#"{"a":{"b":1}, "c\n" : [2] }"#).collect();
        assert_eq!(all, [("a".into(), r#"{"b":1}"#), ("c\n".into(), "[2]")]);
        assert!(members("{}").next().is_none() && members("[1]").next().is_none());
    }
}
