//! Comments of `.proto` files are text for people; rustdoc reads Markdown, runs what looks like code, and
//! follows what looks like a link.

use prost_types::FileDescriptorSet;

/// Makes all comments mean to rustdoc what people read in them, and keeps out of the source what a compiler
/// does not take there.
pub(crate) fn tidy(files: &mut FileDescriptorSet) {
    let infos = files.file.iter_mut().filter_map(|file| file.source_code_info.as_mut());
    for location in infos.flat_map(|info| &mut info.location) {
        let around = [&mut location.leading_comments, &mut location.trailing_comments];
        let around = around.into_iter().flatten();
        for comment in around.chain(&mut location.leading_detached_comments) {
            *comment = tidied(comment);
        }
    }
}

fn tidied(comment: &str) -> String {
    let mut out = String::with_capacity(comment.len() + 16);
    let mut fence: Option<Fence> = None;
    for line in comment.lines() {
        let line: String = line.trim_end().chars().map(printable).collect();
        let text = line.trim_start();
        let indent = line.len() - text.len();
        match fence {
            Some(open) if open.is_closed_by(text) => {
                open.push(&mut out);
                fence = None;
            }
            Some(open) => {
                if !text.is_empty() {
                    // Less, and a list that the block is in would end, and the block with it.
                    push_spaces(indent.max(open.indent), &mut out);
                    out.push_str(text);
                }
            }
            None => {
                // What stands deeper would be code, and code a test.
                let indent = indent.min(INDENT_MAX);
                push_spaces(indent, &mut out);
                fence = opened_fence(text).map(|mark| Fence { mark, indent });
                match fence {
                    Some(open) => out.push_str(&format!("{}text", open.mark)),
                    None => escape(push_list_marks(text, &mut out), &mut out),
                }
            }
        }
        out.push('\n');
    }
    if let Some(open) = fence {
        open.push(&mut out);
        out.push('\n');
    }
    out
}

/// A block of code that goes on.
#[derive(Clone, Copy)]
struct Fence {
    /// It begins and ends with it.
    mark: &'static str,
    indent: usize,
}

impl Fence {
    fn is_closed_by(&self, text: &str) -> bool {
        text.starts_with(self.mark) && text.trim_start_matches(&self.mark[..1]).is_empty()
    }

    fn push(&self, out: &mut String) {
        push_spaces(self.indent, out);
        out.push_str(self.mark);
    }
}

fn push_spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// Copies the marks of lists and quotations before a text, with one space behind each: more of them would
/// be code. The text from there on.
fn push_list_marks<'a>(text: &'a str, out: &mut String) -> &'a str {
    let mut rest = text;
    while let Some(len) = list_mark_len(rest) {
        let (mark, behind) = rest.split_at(len);
        out.push_str(mark);
        rest = behind.trim_start();
        if rest.len() < behind.len() {
            out.push(' ');
        }
    }
    rest
}

fn list_mark_len(text: &str) -> Option<usize> {
    if text.starts_with('>') {
        return Some(1);
    }
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let ends = if digits == 0 { ['-', '*', '+'].as_slice() } else { &['.', ')'] };
    let behind = text[digits..].strip_prefix(ends)?;
    behind.starts_with(char::is_whitespace).then_some(digits + 1)
}

/// Spaces before a line that rustdoc takes for text.
const INDENT_MAX: usize = 3;

/// The compiler refuses characters that change the direction of the text around them, and a carriage
/// return that ends no line.
fn printable(char: char) -> char {
    match char {
        _ if char.is_control() => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        _ => char,
    }
}

/// The mark that begins a block of code, which ends with the same.
fn opened_fence(text: &str) -> Option<&'static str> {
    ["```", "~~~"]
        .into_iter()
        .find(|mark| text.strip_prefix(mark).is_some_and(|rest| !rest.contains('`')))
}

/// Code between backticks and links to the web stay; other brackets and backticks stand for themselves.
fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let mut len = char.len_utf8();
        match char {
            '`' => match code_len(rest) {
                Some(code) => len = code,
                None => out.push('\\'),
            },
            // Escaped already.
            '\\' => len += rest[1..].starts_with(|next: char| next.is_ascii_punctuation()) as usize,
            // Behind the mark of a list it would begin a block of code.
            '~' if rest.starts_with("~~") => out.push('\\'),
            '[' => match link(rest) {
                Some((label, target)) => {
                    out.push('[');
                    escape(label, out);
                    rest = target;
                    continue;
                }
                None => out.push('\\'),
            },
            '<' => match web_address(&rest[1..]) {
                // prost-build writes the brackets.
                Some((address, after)) => {
                    push_address(address, out);
                    rest = after;
                    continue;
                }
                None => out.push('\\'),
            },
            'h' if is_address(rest) => {
                len =
                    rest.find(|end: char| end.is_whitespace() || end == ')').unwrap_or(rest.len());
                push_address(&rest[..len], out);
                rest = &rest[len..];
                continue;
            }
            _ => {}
        }
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
}

/// Length of the code that begins and ends with the same number of backticks.
fn code_len(text: &str) -> Option<usize> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mut from = ticks;
    loop {
        let start = from + text[from..].find('`')?;
        let end = text.len() - text[start..].trim_start_matches('`').len();
        if end - start == ticks {
            return Some(end);
        }
        from = end;
    }
}

/// The label of a link to the web, and the text from its end on.
fn link(text: &str) -> Option<(&str, &str)> {
    let end = text.find(']')?;
    let (label, target) = (&text[1..end], &text[end..]);
    let leads_out = target.strip_prefix("](").is_some_and(is_address);
    (leads_out && !label.contains('[') && target.contains(')')).then_some((label, target))
}

/// The text before the bracket that closes an address, and the text after it.
fn web_address(text: &str) -> Option<(&str, &str)> {
    let (address, after) = text.split_once('>')?;
    (is_address(address) && !address.contains(char::is_whitespace)).then_some((address, after))
}

fn is_address(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// prost-build puts brackets around an address, so there can be none in it.
fn push_address(address: &str, out: &mut String) {
    for char in address.chars() {
        match char {
            '<' | '>' | '[' | ']' | '`' | '\\' => {
                out.push_str(&format!("%{:02X}", u32::from(char)))
            }
            char => out.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(comment: &str, expected: &str) {
        assert_eq!(tidied(comment), expected);
    }

    #[test]
    fn text_stays_as_it_is() {
        check(
            " A price, in cents.\n\n Never less than 0.\n",
            " A price, in cents.\n\n Never less than 0.\n",
        );
        check(" - a list\n   of two lines\n", " - a list\n   of two lines\n");
    }

    #[test]
    fn what_looks_like_markdown_stands_for_itself() {
        check(" Vec<T> of [0] and \\[1]", " Vec\\<T> of \\[0] and \\[1]\n");
        check(" `Vec<T>[0]` and ``a`b`` and a lone `", " `Vec<T>[0]` and ``a`b`` and a lone \\`\n");
        check(" [a <b>](https://c.d/e) [a](b)", " [a \\<b>](https://c.d/e) \\[a](b)\n");
        check(" <https://c.d/e>, <a@b.c>, <br/>", " https://c.d/e, \\<a@b.c>, \\<br/>\n");
        check(" (http://a/[0]<b>) \u{fc}ber", " (http://a/%5B0%5D%3Cb%3E) \u{fc}ber\n");
    }

    #[test]
    fn nothing_becomes_a_test() {
        check(" so:\n\n        assert!(false);\n", " so:\n\n   assert!(false);\n");
        check("\n\tassert!(false)", "\n assert!(false)\n");
        check(" ```rust\n   a[<0>]\n ```\n [b]", " ```text\n   a[<0>]\n ```\n \\[b]\n");
        check(" ~~~\n never closed", " ~~~text\n never closed\n ~~~\n");
        check(" ```inline```", " ```inline```\n");
        check(" - ~~~\n a", " - \\~\\~~\n a\n");
        check(" - ```rust\n a", " - \\`\\`\\`rust\n a\n");
        check(" -      a\n 1. 2)      b *  c", " - a\n 1. 2) b *  c\n");
        check(" >     a\n >>b\n*\t\tc", " > a\n >>b\n* c\n");
        check(" -a 1.b - - -\n **c** 3", " -a 1.b - - -\n **c** 3\n");
    }

    #[test]
    fn no_line_of_a_block_of_code_ends_a_list_around_it() {
        check(
            " - a\n   ```\n b\n\n     c\n ```\n   d\n",
            " - a\n   ```text\n   b\n\n     c\n   ```\n   d\n",
        );
        check(" - a\n   ~~~\n b", " - a\n   ~~~text\n   b\n   ~~~\n");
    }

    #[test]
    fn what_the_compiler_refuses_is_taken_out() {
        check(" a\rb\u{202e}c\u{7}d\r\n e", " a b\u{fffd}c d\n e\n");
    }
}
