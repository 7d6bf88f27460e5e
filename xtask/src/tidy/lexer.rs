//! Cuts Rust text into tokens, as far as the checks of imports, layers and names need it.
//!
//! Not a parser: it only has to know where code ends and strings, characters and comments begin,
//! so that a brace in a string is never taken for a brace of the program.

/// What a [`Token`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword.
    Word,
    /// A string literal of any sort; the text is its content with escapes left as written.
    Text,
    /// A number, character, byte, lifetime or raw identifier.
    Other,
    /// One character of punctuation.
    Mark,
}

/// One token and the line it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    /// Whether this is the keyword, identifier or punctuation `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Mark) && self.text == text
    }
}

/// Cuts `text` into its tokens and skips its comments.
pub(crate) fn lex(text: &str) -> Vec<Token> {
    let chars = text.chars().collect();
    let mut lexer = Lexer { chars, at: 0, line: 1, tokens: Vec::new() };
    while let Some(c) = lexer.peek(0) {
        lexer.step(c);
    }
    lexer.tokens
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn step(&mut self, c: char) {
        match (c, self.peek(1)) {
            ('/', Some('/')) => drop(self.take_while(|c| c != '\n')),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            _ if c.is_whitespace() => drop(self.bump()),
            _ if c.is_ascii_digit() => self.number(),
            _ if is_word(c) => self.word(),
            _ => {
                self.push(Kind::Mark, c.to_string(), self.line);
                self.bump();
            }
        }
    }

    fn push(&mut self, kind: Kind, text: String, line: usize) {
        self.tokens.push(Token { kind, text, line });
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let step = match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => 1,
                (Some('*'), Some('/')) => -1,
                (None, _) => break,
                _ => 0,
            };
            depth += step;
            self.bump();
            if step != 0 {
                self.bump();
            }
            if depth == 0 {
                break;
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        let mut text = String::new();
        self.bump();
        while let Some(c) = self.bump() {
            match c {
                '"' => break,
                '\\' => {
                    text.push(c);
                    text.extend(self.bump());
                }
                _ => text.push(c),
            }
        }
        self.push(Kind::Text, text, line);
    }

    /// The rest of a raw string, from its first `#` or `"`.
    fn raw_string(&mut self) {
        let line = self.line;
        let hashes = self.take_while(|c| c == '#').len();
        self.bump();
        let mut text = String::new();
        while let Some(c) = self.bump() {
            if c == '"' && (0..hashes).all(|i| self.peek(i) == Some('#')) {
                self.at += hashes;
                break;
            }
            text.push(c);
        }
        self.push(Kind::Text, text, line);
    }

    /// A character or a lifetime: `'a'` and `'\n'` against `'a`.
    fn quote(&mut self) {
        let start = self.at;
        self.bump();
        if self.peek(0) == Some('\\') {
            self.bump();
            self.bump();
            self.take_while(|c| c != '\'' && c != '\n');
            self.bump();
        } else if self.peek(1) == Some('\'') {
            self.bump();
            self.bump();
        } else {
            self.take_while(is_word);
        }
        self.push_since(start);
    }

    fn number(&mut self) {
        let start = self.at;
        self.take_while(is_word);
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            self.take_while(is_word);
        }
        self.push_since(start);
    }

    fn push_since(&mut self, start: usize) {
        let text = self.chars[start..self.at].iter().collect();
        self.push(Kind::Other, text, self.line);
    }

    /// An identifier, or the prefix of a string or byte literal.
    fn word(&mut self) {
        let line = self.line;
        let text = self.take_while(is_word);
        match (text.as_str(), self.peek(0), self.peek(1)) {
            ("b" | "c", Some('"'), _) => self.string(),
            ("b", Some('\''), _) => self.quote(),
            ("r" | "br" | "cr", Some('"'), _) | ("r" | "br" | "cr", Some('#'), Some('"' | '#')) => {
                self.raw_string();
            }
            ("r", Some('#'), Some(_)) => {
                self.bump();
                let text = self.take_while(is_word);
                self.push(Kind::Other, text, line);
            }
            _ => self.push(Kind::Word, text, line),
        }
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.peek(0).filter(|&c| keep(c)) {
            text.push(c);
            self.bump();
        }
        text
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, words: &[&str], texts: &[&str]) {
        let tokens = lex(text);
        let of = |kind| -> Vec<String> {
            tokens.iter().filter(|t| t.kind == kind).map(|t| t.text.clone()).collect()
        };
        assert_eq!(of(Kind::Word), words, "words of {text}");
        assert_eq!(of(Kind::Text), texts, "strings of {text}");
    }

    #[test]
    fn strings_hide_their_content() {
        check(r#"let a = "fn { \" }";"#, &["let", "a"], &[r#"fn { \" }"#]);
        check("r##\"x\"# {\"##; b", &["b"], &["x\"# {"]);
        check("b\"{\" br#\"}\"# c\"(\"", &[], &["{", "}", "("]);
    }

    #[test]
    fn characters_are_not_lifetimes() {
        check(
            "fn f<'a>(x: &'a str) { '{'; '\\''; b'}'; '\\u{7d}'; y }",
            &["fn", "f", "x", "str", "y"],
            &[],
        );
        check("'label: loop { break 'label }", &["loop", "break"], &[]);
    }

    #[test]
    fn numbers_and_ranges() {
        check("0..len 1.5e3 0xff_u8 1.max(2)", &["len", "max"], &[]);
    }

    #[test]
    fn comments_are_skipped() {
        let tokens = lex("a // one {\n/* two\n /* three */ */ b");
        let found: Vec<_> = tokens.iter().map(|t| (t.text.as_str(), t.line)).collect();
        assert_eq!(found, [("a", 1), ("b", 3)]);
    }

    #[test]
    fn an_open_string_or_comment_ends_with_the_text() {
        check("a \"open", &["a"], &["open"]);
        check("a /* open", &["a"], &[]);
    }
}
