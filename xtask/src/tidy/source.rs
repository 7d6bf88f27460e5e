//! What the checks ask about one Rust file: its test code and its modules.

use super::lexer::{Kind, Token, lex};
use std::ops::RangeInclusive;

/// One Rust file, cut into tokens.
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// Lines of items that only tests compile, attributes included.
    pub(crate) test_lines: Vec<RangeInclusive<usize>>,
}

/// A `mod name;` whose text stands in a file of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutsideModule {
    /// Inline modules around it, outermost first, then its own name.
    pub(crate) path: Vec<String>,
    /// The file of a `#[path = "…"]`.
    pub(crate) file: Option<String>,
    pub(crate) line: usize,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let tokens = lex(text);
        let test_lines = test_lines(&tokens);
        Source { tokens, test_lines }
    }

    /// Whether `line` belongs to an item that only tests compile.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// The tokens that production builds compile.
    pub(crate) fn product_tokens(&self) -> Vec<Token> {
        self.tokens.iter().filter(|t| !self.is_test_line(t.line)).cloned().collect()
    }

    /// All `mod name;` of the file.
    pub(crate) fn outside_modules(&self) -> Vec<OutsideModule> {
        let mut inline: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        let mut found = Vec::new();
        for (i, token) in self.tokens.iter().enumerate() {
            match token.text.as_str() {
                "{" if token.kind == Kind::Mark => depth += 1,
                "}" if token.kind == Kind::Mark => {
                    depth -= 1;
                    inline.retain(|&(_, opened)| opened <= depth);
                }
                "mod" if token.kind == Kind::Word => match &self.tokens[i + 1..] {
                    [name, end, ..] if end.is(";") => {
                        let around = inline.iter().map(|(name, _)| name.clone());
                        let path = around.chain([name.text.clone()]).collect();
                        found.push(OutsideModule {
                            path,
                            file: self.path_attribute(i),
                            line: token.line,
                        });
                    }
                    [name, open, ..] if open.is("{") => inline.push((name.text.clone(), depth + 1)),
                    _ => {}
                },
                _ => {}
            }
        }
        found
    }

    /// The string of a `#[path = "…"]` among the tokens just before index `at`.
    fn path_attribute(&self, at: usize) -> Option<String> {
        let before = &self.tokens[..at];
        let start =
            before.iter().rposition(|t| t.is(";") || t.is("}") || t.is("{")).map_or(0, |i| i + 1);
        let hit = before[start..]
            .windows(3)
            .find(|w| w[0].is("path") && w[1].is("=") && w[2].kind == Kind::Text)?;
        Some(hit[2].text.clone())
    }
}

/// Index of the token that ends the item which starts at index `at`: its `;` or closing brace.
pub(super) fn item_end(tokens: &[Token], at: usize) -> usize {
    let last = tokens.len() - 1;
    let ends_at_semicolon = tokens[at].is("use");
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        if token.kind != Kind::Mark {
            continue;
        }
        match token.text.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" if depth == 0 && !ends_at_semicolon => return closing(tokens, i),
            ";" if depth == 0 => return i,
            _ => {}
        }
    }
    last
}

/// Index of the bracket that closes the one at index `at`, or of the last token.
fn closing(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        if token.kind != Kind::Mark {
            continue;
        }
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i;
                }
            }
            _ => {}
        }
    }
    tokens.len() - 1
}

fn test_lines(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let mut ranges = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let Some((end, inner)) = attribute(tokens, i) else {
            i += 1;
            continue;
        };
        if !is_test_only(&tokens[i..=end]) {
            i = end + 1;
        } else if inner {
            return vec![1..=usize::MAX];
        } else {
            let last = item_end(tokens, skip_attributes(tokens, end + 1));
            ranges.push(tokens[i].line..=tokens[last].line);
            i = last + 1;
        }
    }
    ranges
}

/// The end of the attribute at index `at`, and whether it is an inner one (`#![…]`).
fn attribute(tokens: &[Token], at: usize) -> Option<(usize, bool)> {
    let inner = tokens.get(at + 1).is_some_and(|t| t.is("!"));
    let open = at + 1 + usize::from(inner);
    let is_attribute = tokens[at].is("#") && tokens.get(open).is_some_and(|t| t.is("["));
    is_attribute.then(|| (closing(tokens, open), inner))
}

fn skip_attributes(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        match attribute(tokens, at) {
            Some((end, _)) => at = end + 1,
            None => return at,
        }
    }
    tokens.len() - 1
}

/// `#[test]`, or a `cfg` that holds only when tests are built.
fn is_test_only(attribute: &[Token]) -> bool {
    let words: Vec<&str> =
        attribute.iter().filter(|t| t.kind == Kind::Word).map(|t| t.text.as_str()).collect();
    match words[..] {
        ["test"] => true,
        ["cfg", "any", ..] => false,
        ["cfg", ref rest @ ..] => {
            let negated = rest.windows(2).any(|w| w == ["not", "test"]);
            rest.contains(&"test") && !negated
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
fn one(f: fn(u8) -> u8) -> [u8; 2] {
    "}";
}
trait T { fn bodiless(&self); }
#[cfg(test)]
use a::{b, c};
#[cfg(all(test, not(loom)))]
#[allow(dead_code)]
mod tests {
    fn two() {}
}
#[cfg(not(test))]
fn three() {}
"#;

    #[test]
    fn test_items_are_known() {
        let source = Source::new(SAMPLE);
        let lines: Vec<_> = (1..=14).filter(|&line| source.is_test_line(line)).collect();
        assert_eq!(lines, [6, 7, 8, 9, 10, 11, 12]);
        assert!(Source::new("#![cfg(test)]\nfn f() {}").is_test_line(2));
    }

    #[test]
    fn modules_in_other_files() {
        let text = "mod a; mod b { mod c; } #[path = \"x/d.rs\"] mod d; fn f() { e } mod g;";
        let found: Vec<_> = Source::new(text)
            .outside_modules()
            .into_iter()
            .map(|m| (m.path.join("/"), m.file))
            .collect();
        let plain = |name: &str| (name.to_owned(), None);
        let expected =
            [plain("a"), plain("b/c"), ("d".to_owned(), Some("x/d.rs".to_owned())), plain("g")];
        assert_eq!(found, expected);
    }
}
