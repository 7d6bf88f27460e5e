//! Makes text from others safe to print: a terminal obeys control characters, and marks of direction change the
//! order in which text is shown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes text for one line.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Escapes text that may have several lines and tabs.
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |char| matches!(char, '\n' | '\t'))
}

/// The escapes are those of JSON, so JSON keeps its meaning.
fn escaped(text: &str, may_stay: impl Fn(char) -> bool) -> Cow<'_, str> {
    let must_go = |char: char| is_an_order(char) && !may_stay(char);
    if !text.contains(must_go) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match must_go(char) {
            true => write!(out, "\\u{:04x}", u32::from(char)).expect("writing to a string"),
            false => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// Whether it is a control character, a line end, or a mark of the direction of text.
fn is_an_order(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(char, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_to_a_terminal_become_text() {
        assert_eq!(printable("\x1b]0;owned\x07\u{9b}2J"), "\\u001b]0;owned\\u0007\\u009b2J");
        assert_eq!(printable("a\r\nb\tc\u{202e}"), "a\\u000d\\u000ab\\u0009c\\u202e");
        assert_eq!(printable_lines("a\n\tb\r\u{7f}"), "a\n\tb\\u000d\\u007f");
    }

    #[test]
    fn text_stays_text() {
        assert!(matches!(printable("Grüße, 世界 \\u001b 🦀"), Cow::Borrowed(_)));
    }
}
