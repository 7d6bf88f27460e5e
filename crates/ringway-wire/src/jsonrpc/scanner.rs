//! JSON text (RFC 8259), checked in one pass and handed out as slices of itself.

use std::borrow::Cow;

use super::text::{HEX_LEN, hex, plain_end, unescape};
use crate::limits::JSONRPC_DEPTH_MAX;

/// The text is not JSON, or has characters that no `str` can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

/// Walks through a text. It keeps no stack that could overflow, and takes each byte once.
#[derive(Debug, Clone)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// A value was nested deeper than [`JSONRPC_DEPTH_MAX`]; it was passed over, not checked.
    is_too_deep: bool,
}

impl<'a> Scanner<'a> {
    #[inline]
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, is_too_deep: false }
    }

    /// Whether a value was too deep since the last call.
    #[inline]
    pub(super) fn take_too_deep(&mut self) -> bool {
        std::mem::take(&mut self.is_too_deep)
    }

    /// The next byte that is no white space; it stays.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let (at, byte) = visible(self.text.as_bytes(), self.at);
        self.at = at;
        byte
    }

    /// Takes the next byte that is no white space if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes a value of any kind, without the white space around it.
    #[inline]
    pub(super) fn value(&mut self) -> Result<&'a str, NotJson> {
        let bytes = self.text.as_bytes();
        let (start, first) = visible(bytes, self.at);
        self.at = match first.ok_or(NotJson)? {
            b'{' | b'[' => container(bytes, start, &mut self.is_too_deep)?,
            first => scalar(bytes, start, first)?,
        };
        Ok(&self.text[start..self.at])
    }

    /// Takes an object, and gives each member whose name is one of `names` to `on_member`: the place of its name
    /// among them, and its value.
    #[inline]
    pub(super) fn object<const N: usize>(
        &mut self,
        names: [&str; N],
        mut on_member: impl FnMut(usize, &'a str),
    ) -> Result<(), NotJson> {
        if !self.take(b'{') {
            return Err(NotJson);
        }
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name(names)?;
            let value = self.value()?;
            if let Some(name) = name {
                on_member(name, value);
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(NotJson),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Takes the name of a member and its colon; its place among `names`.
    ///
    /// Comparing first is faster than looking for the end of the name: a processor guesses the outcome and goes
    /// on, while it would have to wait for a position.
    #[inline]
    fn name<const N: usize>(&mut self, names: [&str; N]) -> Result<Option<usize>, NotJson> {
        let bytes = self.text.as_bytes();
        let (start, first) = visible(bytes, self.at);
        if first != Some(b'"') {
            return Err(NotJson);
        }
        let rest = &bytes[start + 1..];
        for (i, name) in names.into_iter().enumerate() {
            if rest.starts_with(name.as_bytes()) && rest.get(name.len()) == Some(&b'"') {
                self.at = colon(bytes, start + name.len() + 2)?;
                return Ok(Some(i));
            }
        }
        let name = self.other_name(start)?;
        Ok(names.into_iter().position(|it| it == name))
    }

    /// A name that is unknown, unless it is written with escapes.
    fn other_name(&mut self, start: usize) -> Result<Cow<'a, str>, NotJson> {
        let bytes = self.text.as_bytes();
        let plain = plain_end(bytes, start + 1);
        let end = string_end(bytes, plain)?;
        let name = &self.text[start + 1..end - 1];
        self.at = colon(bytes, end)?;
        Ok(if plain + 1 == end { Cow::Borrowed(name) } else { unescape(name) })
    }
}

// Positions go in and come out: kept in registers, they make this twice as fast as a field would.

/// The first byte from `at` on that is no white space, with its position.
#[inline]
fn visible(bytes: &[u8], mut at: usize) -> (usize, Option<u8>) {
    while let Some(&byte) = bytes.get(at) {
        if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return (at, Some(byte));
        }
        at += 1;
    }
    (at, None)
}

/// The end of the array or object that begins at `at`, with all that is in it.
fn container(bytes: &[u8], at: usize, is_too_deep: &mut bool) -> Result<usize, NotJson> {
    let (mut at, mut nest) = (at, Nest::default());
    loop {
        let (start, first) = visible(bytes, at);
        at = match first.ok_or(NotJson)? {
            first @ (b'{' | b'[') => {
                if !nest.enter(first == b'{') {
                    *is_too_deep = true;
                    return pass_over(bytes, start + 1, nest.depth);
                }
                match visible(bytes, start + 1) {
                    (end, Some(byte)) if byte == nest.closing() => {
                        nest.leave();
                        end + 1
                    }
                    _ => {
                        at = before_value(bytes, start + 1, &nest)?;
                        continue;
                    }
                }
            }
            first => scalar(bytes, start, first)?,
        };
        // A value has ended, and perhaps what it is in.
        loop {
            if nest.depth == 0 {
                return Ok(at);
            }
            let (next, byte) = visible(bytes, at);
            at = next + 1;
            if byte == Some(b',') {
                break;
            }
            if byte != Some(nest.closing()) {
                return Err(NotJson);
            }
            nest.leave();
        }
        at = before_value(bytes, at, &nest)?;
    }
}

/// The end of what stands before a value of the innermost container.
#[inline]
fn before_value(bytes: &[u8], at: usize, nest: &Nest) -> Result<usize, NotJson> {
    if !nest.is_object() {
        return Ok(at);
    }
    match visible(bytes, at) {
        (start, Some(b'"')) => colon(bytes, string(bytes, start)?),
        _ => Err(NotJson),
    }
}

#[inline]
fn colon(bytes: &[u8], at: usize) -> Result<usize, NotJson> {
    match visible(bytes, at) {
        (at, Some(b':')) => Ok(at + 1),
        _ => Err(NotJson),
    }
}

/// The end of a value that is too deep, by its brackets, so that what follows it can be read: the id of its
/// message may.
#[cold]
fn pass_over(bytes: &[u8], mut at: usize, mut depth: u32) -> Result<usize, NotJson> {
    while depth > 0 {
        match bytes.get(at).ok_or(NotJson)? {
            b'"' => {
                at = string(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth = depth.checked_add(1).ok_or(NotJson)?,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Ok(at)
}

#[inline]
fn scalar(bytes: &[u8], at: usize, first: u8) -> Result<usize, NotJson> {
    match first {
        b'"' => string(bytes, at),
        b'-' | b'0'..=b'9' => number(bytes, at, first),
        b't' => word(bytes, at, "true"),
        b'f' => word(bytes, at, "false"),
        b'n' => word(bytes, at, "null"),
        _ => Err(NotJson),
    }
}

#[inline]
fn word(bytes: &[u8], at: usize, word: &str) -> Result<usize, NotJson> {
    if bytes[at..].starts_with(word.as_bytes()) { Ok(at + word.len()) } else { Err(NotJson) }
}

#[inline]
fn number(bytes: &[u8], at: usize, first: u8) -> Result<usize, NotJson> {
    let start = at + usize::from(first == b'-');
    let end = digits(bytes, start)?;
    if bytes[start] == b'0' && end > start + 1 {
        return Err(NotJson);
    }
    match bytes.get(end) {
        Some(b'.' | b'e' | b'E') => fraction(bytes, end),
        _ => Ok(end),
    }
}

/// The end of a number's fraction and exponent, of which one begins at `at`.
fn fraction(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let has_sign = matches!(bytes.get(at + 1), Some(b'+' | b'-'));
        at = digits(bytes, at + 1 + usize::from(has_sign))?;
    }
    Ok(at)
}

/// The end of the digits from `start` on, of which there is one at least.
#[inline]
fn digits(bytes: &[u8], start: usize) -> Result<usize, NotJson> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at > start { Ok(at) } else { Err(NotJson) }
}

/// The end of the string that begins at `at`.
#[inline]
fn string(bytes: &[u8], at: usize) -> Result<usize, NotJson> {
    string_end(bytes, plain_end(bytes, at + 1))
}

/// The end of a string whose first byte that is not plain stands at `at`.
#[inline]
fn string_end(bytes: &[u8], at: usize) -> Result<usize, NotJson> {
    if bytes.get(at) == Some(&b'"') { Ok(at + 1) } else { string_with_escapes(bytes, at) }
}

fn string_with_escapes(bytes: &[u8], mut at: usize) -> Result<usize, NotJson> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = plain_end(bytes, escape(bytes, at + 1)?),
            _ => return Err(NotJson),
        }
    }
}

/// The end of the escape whose backslash stands before `at`.
fn escape(bytes: &[u8], at: usize) -> Result<usize, NotJson> {
    match bytes.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match unit(bytes, at + 1)? {
            (0xd800..=0xdbff, end) if bytes[end..].starts_with(b"\\u") => {
                match unit(bytes, end + 2)? {
                    (0xdc00..=0xdfff, end) => Ok(end),
                    _ => Err(NotJson),
                }
            }
            (0xd800..=0xdfff, _) => Err(NotJson),
            (_, end) => Ok(end),
        },
        _ => Err(NotJson),
    }
}

/// The number in the digits of `\u`, and their end.
fn unit(bytes: &[u8], at: usize) -> Result<(u16, usize), NotJson> {
    let end = at + HEX_LEN;
    Ok((bytes.get(at..end).and_then(hex).ok_or(NotJson)?, end))
}

/// The containers around a value.
#[derive(Default)]
struct Nest {
    depth: u32,
    /// Whether each is an object; the innermost is the lowest bit.
    kinds: u128,
}

const _: () = assert!(JSONRPC_DEPTH_MAX <= u128::BITS);

impl Nest {
    /// Whether there may be another one.
    #[inline]
    fn enter(&mut self, is_object: bool) -> bool {
        self.depth += 1;
        self.kinds = self.kinds << 1 | u128::from(is_object);
        self.depth <= JSONRPC_DEPTH_MAX
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
        self.kinds >>= 1;
    }

    #[inline]
    fn is_object(&self) -> bool {
        self.kinds & 1 == 1
    }

    #[inline]
    fn closing(&self) -> u8 {
        if self.is_object() { b'}' } else { b']' }
    }
}

/// Whether `text` is one JSON value, nested no deeper than a message may be.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::is_json;
///
/// assert!(is_json(br#" {"a": [1.5e3, null, "\u00e9"]} "#));
/// assert!(!is_json(b"{'a': 1}") && !is_json(b"1 2") && !is_json(b"01"));
/// ```
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut scanner = Scanner::new(text);
    scanner.value().is_ok() && scanner.peek().is_none() && !scanner.take_too_deep()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[&str] = &[
        "0",
        "-0",
        "10",
        "1.25",
        "1e5",
        "1E+5",
        "-1.0e-12",
        "true",
        "false",
        "null",
        "\"\"",
        "[]",
        "{}",
        " [ ] ",
        "\t{\r\n}",
        "[1,[2],{\"a\":[]}]",
        "{\"a\":{\"b\":1},\"c\":2}",
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u00e9\ud83d\ude00 é€😀""#,
        "\"\u{7f}\"",
        "123456789012345678901234567890",
    ];

    const BAD: &[&str] = &[
        "",
        " ",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "tru",
        "truee",
        "nul",
        "True",
        "\"",
        "\"a",
        "'a'",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{1:2}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "1 2",
        "{}{}",
        "{} x",
        "\"\n\"",
        "\"\0\"",
        r#""\x""#,
        r#""\"#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\ud800""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\u0041""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        "[1]]",
        "nan",
        "// a\n1",
        "\u{feff}1",
        "[\"a\":1]",
        "{\"a\",1}",
        "[1:2]",
    ];

    #[test]
    fn what_is_json_and_what_is_not() {
        for text in GOOD {
            assert!(is_json(text.as_bytes()), "{text}");
        }
        for text in BAD {
            assert!(!is_json(text.as_bytes()), "{text}");
        }
        for text in [&b"\"\xff\""[..], b"\"\xc3\"", b"\"\xed\xa0\x80\"", b"\xef\xbb\xbf"] {
            assert!(!is_json(text), "{text:?}");
        }
    }

    #[test]
    fn nesting_is_bounded_and_what_is_behind_it_is_read() {
        let max = JSONRPC_DEPTH_MAX as usize;
        let arrays = |depth: usize| format!("{}\"]\"{}", "[".repeat(depth), "]".repeat(depth));
        let objects =
            |depth: usize| format!("{}\"}}\"{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for nested in [&arrays as &dyn Fn(usize) -> String, &objects] {
            assert!(is_json(nested(max).as_bytes()));
            for depth in [max + 1, 128, 129, 200, 200_000] {
                let text = format!("{} 7", nested(depth));
                assert!(!is_json(nested(depth).as_bytes()));
                let mut scanner = Scanner::new(&text);
                assert_eq!(scanner.value(), Ok(&text[..text.len() - 2]), "{depth}");
                assert!(scanner.take_too_deep() && !scanner.take_too_deep());
                assert_eq!(scanner.value(), Ok("7"));
            }
        }
        for bomb in ["[", "{\"a\":", "[{\"a\":", "[\"\\"] {
            assert_eq!(Scanner::new(&bomb.repeat(1 << 18)).value(), Err(NotJson));
        }
    }

    #[test]
    fn members_are_slices_and_names_are_read() {
        let mut found = Vec::new();
        let text = r#" { "a" : [1, 2] , "b":{"a":0},"ab":3,"":4, "\u0061":" x ","a\u0062":"}" } ,"#;
        let mut scanner = Scanner::new(text);
        let result = scanner.object(["ab", "", "a"], |name, value| found.push((name, value)));
        assert_eq!((result, scanner.peek()), (Ok(()), Some(b',')));
        assert_eq!(found, [(2, "[1, 2]"), (0, "3"), (1, "4"), (2, "\" x \""), (0, "\"}\"")]);
    }
}
