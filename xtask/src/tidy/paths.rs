//! The paths that Rust text names: those of its `use` items, and those of its code.

use super::lexer::{Kind, Token};

/// A path of names, where it stands, and what it brings in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The inline modules around it, outermost first.
    pub(super) inside: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) role: Role,
    pub(super) line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A `use` that binds this name.
    Binds { name: String, is_public: bool },
    /// A `use` of everything that a module has.
    BindsAll { is_public: bool },
    /// Code that names it, as in `names::like::this`.
    Code,
}

/// All paths of at least one name that are in `use` items, and all of at least two in code.
pub(super) fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut reader = Reader { tokens, at: 0, depth: 0, inline: Vec::new(), found: Vec::new() };
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.found
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Inline modules, each with the depth of its body.
    inline: Vec<(String, usize)>,
    found: Vec<Path>,
}

impl Reader<'_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    fn is_colons(&self, at: usize) -> bool {
        self.is(at, ":") && self.is(at + 1, ":")
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).filter(|token| token.kind == Kind::Word).map(|token| &*token.text)
    }

    fn step(&mut self) {
        if self.is(self.at, "{") {
            self.depth += 1;
        } else if self.is(self.at, "}") {
            self.depth = self.depth.saturating_sub(1);
            let depth = self.depth;
            self.inline.retain(|&(_, body)| body <= depth);
        } else if self.is(self.at, "mod") && self.is(self.at + 2, "{") {
            let name = self.tokens[self.at + 1].text.clone();
            self.inline.push((name, self.depth + 1));
        } else if self.is(self.at, "use") && !self.is(self.at + 1, "<") {
            let is_public = self.is_public();
            self.at += 1;
            self.tree(&[], is_public);
            return;
        } else if self.word(self.at).is_some() && self.is_colons(self.at + 1) {
            self.code();
            return;
        }
        self.at += 1;
    }

    /// Whether `pub` or `pub(…)` stands before the token.
    fn is_public(&self) -> bool {
        let before = &self.tokens[..self.at];
        match before.last() {
            Some(last) if last.is(")") => {
                let open = before.iter().rposition(|token| token.is("("));
                open.is_some_and(|open| open > 0 && before[open - 1].is("pub"))
            }
            last => last.is_some_and(|last| last.is("pub")),
        }
    }

    /// A path of code, or only the tail of one that begins with a type: `<T as A>::b`, `x.y::<Z>`.
    fn code(&mut self) {
        let (start, line) = (self.at, self.tokens[self.at].line);
        let mut names = Vec::new();
        while let Some(name) = self.word(self.at) {
            names.push(name.to_owned());
            self.at += 1;
            if !self.is_colons(self.at) {
                break;
            }
            self.at += 2;
        }
        let is_tail = start > 0 && (self.is(start - 1, ":") && self.is(start.wrapping_sub(2), ":"));
        let is_method = start > 0 && self.is(start - 1, ".");
        if names.len() > 1 && !is_tail && !is_method {
            self.push(names, Role::Code, line);
        }
    }

    /// The tree of a `use`, up to its end or to the `,` or `}` behind it.
    fn tree(&mut self, prefix: &[String], is_public: bool) {
        let mut names = prefix.to_vec();
        while self.at < self.tokens.len() {
            if self.is_colons(self.at) {
                self.at += 2;
            } else if self.is(self.at, "{") {
                self.list(&names, is_public);
                return;
            } else if self.is(self.at, "*") {
                let line = self.tokens[self.at].line;
                self.at += 1;
                return self.push(names, Role::BindsAll { is_public }, line);
            } else if let Some(name) = self.word(self.at).filter(|&name| name != "as") {
                names.push(name.to_owned());
                self.at += 1;
            } else {
                return self.leaf(names, is_public);
            }
        }
    }

    fn list(&mut self, prefix: &[String], is_public: bool) {
        self.at += 1;
        while self.at < self.tokens.len() && !self.is(self.at, "}") {
            self.tree(prefix, is_public);
            if self.is(self.at, ",") {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    fn leaf(&mut self, mut names: Vec<String>, is_public: bool) {
        let line = self.tokens[self.at].line;
        let mut name = names.last().cloned();
        if name.as_deref() == Some("self") && names.len() > 1 {
            names.pop();
            name = names.last().cloned();
        }
        if self.is(self.at, "as") {
            name = self.tokens.get(self.at + 1).map(|token| token.text.clone());
            self.at += 2;
        } else if !self.is(self.at, ",") && !self.is(self.at, "}") {
            self.at += 1;
        }
        if let Some(name) = name {
            self.push(names, Role::Binds { name, is_public }, line);
        }
    }

    fn push(&mut self, names: Vec<String>, role: Role, line: usize) {
        let inside = self.inline.iter().map(|(name, _)| name.clone()).collect();
        self.found.push(Path { inside, names, role, line });
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    /// Each path as text: `+` public, `=` binds, `@` the inline module.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = paths(&lex(text))
            .iter()
            .map(|path| {
                let names = path.names.join("::");
                let names = match &path.role {
                    Role::Binds { name, is_public: true } => format!("+{names}={name}"),
                    Role::Binds { name, is_public: false } => format!("{names}={name}"),
                    Role::BindsAll { is_public: true } => format!("+{names}=*"),
                    Role::BindsAll { is_public: false } => format!("{names}=*"),
                    Role::Code => names,
                };
                path.inside.iter().fold(names, |names, inside| format!("{names}@{inside}"))
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        check("use a::b;", &["a::b=b"]);
        check(
            "use crate::{a::{B, c::*}, d as e, f::{self}};",
            &["crate::a::B=B", "crate::a::c=*", "crate::d=e", "crate::f=f"],
        );
        check("pub use a::B; pub(crate) use c::*; x(); use d;", &["+a::B=B", "+c=*", "d=d"]);
        check("use super::x::Trait as _;\nuse ::std::fmt;", &["super::x::Trait=_", "std::fmt=fmt"]);
        check("fn f() -> impl A + use<'a, T> { b::c }", &["b::c"]);
    }

    #[test]
    fn code_names_paths() {
        check("let a = crate::b::c(d::E::F, g);", &["crate::b::c", "d::E::F"]);
        check("<T as A>::b; x.y::<Z>(); v.z::<a::B>()", &["a::B"]);
        check("mod m { fn f() { super::g() } } fn h() { self::i() }", &["super::g@m", "self::i"]);
    }
}
