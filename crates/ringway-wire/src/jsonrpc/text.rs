//! The inside of JSON strings: what may stand there as it is, and escapes (RFC 8259, section 7).

use std::borrow::Cow;

use memchr::memchr;

/// The end of the bytes from `from` on that mean themselves in a string: the first quote, backslash or control
/// character, or the end.
///
/// Eight bytes at a time; the lowest mark is exact, while those above it may be due to a borrow.
#[inline]
pub(super) fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*word);
        let (quote, backslash) = (word ^ every(b'"'), word ^ every(b'\\'));
        let marks = (quote.wrapping_sub(every(1)) & !quote)
            | (backslash.wrapping_sub(every(1)) & !backslash)
            | (word.wrapping_sub(every(b' ')) & !word);
        let marks = marks & every(0x80);
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len())
}

#[inline]
const fn every(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[inline]
fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

/// Digits of `\u`.
pub(super) const HEX_LEN: usize = 4;

/// The number that `digits` are in base 16.
pub(super) fn hex(digits: &[u8]) -> Option<u16> {
    digits
        .iter()
        .try_fold(0, |number, &digit| Some(number << 4 | char::from(digit).to_digit(16)? as u16))
}

/// A text of the same length with another character in place of each half of a surrogate pair that stands alone as an
/// escape; `None` if there is none.
pub(super) fn without_halves(text: &str) -> Option<String> {
    const LEN: usize = 2 + HEX_LEN;
    let mut bytes = text.as_bytes().to_vec();
    let unit = |bytes: &[u8], at: usize| {
        let escape = bytes.get(at..at + LEN)?;
        hex(escape.strip_prefix(b"\\u")?)
    };
    let (mut at, mut has_any) = (0, false);
    while let Some(backslash) = memchr(b'\\', bytes.get(at..)?) {
        at += backslash;
        match (unit(&bytes, at), unit(&bytes, at + LEN)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 2 * LEN,
            (Some(0xd800..=0xdfff), _) => {
                bytes[at + 2..at + LEN].copy_from_slice(b"fffd");
                has_any = true;
                at += LEN;
            }
            _ => at += 2, // what follows may be a backslash
        }
    }
    String::from_utf8(bytes).ok().filter(|_| has_any)
}

/// The text of a string that was checked and stands without its quotes.
pub(super) fn unescape(content: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'\\', content.as_bytes()) else {
        return Cow::Borrowed(content);
    };
    let mut text = String::with_capacity(content.len());
    text.push_str(&content[..first]);
    let mut rest = &content[first..];
    while let Some((plain, behind)) = rest.split_once('\\') {
        text.push_str(plain);
        let (character, len) = escaped(behind.as_bytes());
        text.push(character);
        rest = &behind[len..];
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// The character of the escape behind a backslash, and its length.
fn escaped(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| escape.get(at..at + HEX_LEN).and_then(hex);
    let simple = match escape.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let units = [unit(1).unwrap_or_default(), unit(7).unwrap_or_default()];
            let is_pair = char::from_u32(u32::from(units[0])).is_none();
            let character = char::decode_utf16(units).next().and_then(Result::ok);
            return (
                character.unwrap_or(char::REPLACEMENT_CHARACTER),
                if is_pair { 11 } else { 5 },
            );
        }
        other => char::from(*other.unwrap_or(&b'\\')),
    };
    (simple, 1)
}

/// Bytes of `text` inside of a string.
#[inline]
pub(super) fn escaped_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    match plain_end(bytes, 0) {
        end if end == bytes.len() => end,
        end => bytes[end..].iter().fold(end, |len, &byte| len + escape_of(byte).len()),
    }
}

/// Appends `text` as the inside of a string, by means of `put`.
#[inline]
pub(super) fn put_escaped(text: &str, mut put: impl FnMut(&[u8])) {
    let mut rest = text.as_bytes();
    loop {
        let (plain, behind) = rest.split_at(plain_end(rest, 0));
        put(plain);
        let Some((&byte, behind)) = behind.split_first() else {
            return;
        };
        put(escape_of(byte).as_bytes());
        rest = behind;
    }
}

/// What stands for a byte in a string: an escape, or one byte for what is plain.
fn escape_of(byte: u8) -> &'static str {
    const CONTROLS: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
        "\\b", "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011",
        "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017", "\\u0018", "\\u0019",
        "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
    ];
    match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        _ => CONTROLS.get(usize::from(byte)).copied().unwrap_or("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped_text(text: &str) -> String {
        let mut out = Vec::new();
        put_escaped(text, |part| out.extend_from_slice(part));
        assert_eq!(out.len(), escaped_len(text), "{text:?}");
        String::from_utf8(out).expect("text stays text")
    }

    #[test]
    fn plain_bytes_end_where_they_end() {
        for len in 0..40 {
            for special in 0..=255_u8 {
                for at in 0..len {
                    // What is subtracted may borrow from the bytes above: 0x80 and more, and the same again.
                    for filler in [b'a', 0x80, 0xff, b' ', b'!', b'#', b']', b'['] {
                        let mut bytes = vec![filler; len];
                        bytes[at] = special;
                        let expected = if is_plain(special) { len } else { at };
                        assert_eq!(plain_end(&bytes, 0), expected, "{bytes:?}");
                        assert_eq!(plain_end(&bytes, at), expected, "{bytes:?}");
                        assert_eq!(plain_end(&bytes, at + 1), len, "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn escapes_are_read() {
        for (content, text) in [
            ("", ""),
            ("plain é", "plain é"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"a\u00e9b\u20ACc", "aéb€c"),
            (r"\ud83d\ude00!\u0000", "😀!\0"),
            (r"\\u0041\u0041\\", "\\u0041A\\"),
        ] {
            assert_eq!(unescape(content), text, "{content}");
        }
        assert!(matches!(unescape("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_character_comes_back() {
        for (text, expected) in [
            ("", ""),
            ("plain é€😀\u{7f}", "plain é€😀\u{7f}"),
            ("\"\\", r#"\"\\"#),
            ("a\nb\u{8}\u{c}\r\t\0\u{1f}", r"a\nb\b\f\r\t\u0000\u001f"),
        ] {
            assert_eq!(escaped_text(text), expected);
        }
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        assert_eq!(unescape(&escaped_text(&all)), all);
    }
}
