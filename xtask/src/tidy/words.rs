//! Words that mark unfinished work, and paths of one person's machine.

use super::finding::Finding;
use super::lexer::{Kind, Token};
use super::tree::{File, Tree};

/// Marks of unfinished work, split so that this file does not contain them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Places that exist on one machine only, split for the same reason.
const PLACES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Macros that must not be left behind.
const MACROS: &[&str] = &["dbg", "todo", "unimplemented"];

/// Written by cargo, or a fixed legal text.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// No unfinished work, no private paths, no sleeping or silently ignored tests.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_ours = |file: &&File| !NOT_OURS.iter().any(|name| file.path.ends_with(name));
    for file in tree.files.iter().filter(is_ours) {
        for (i, row) in file.text.lines().enumerate() {
            let hit = MARKS.iter().chain(PLACES).find(|word| contains_word(row, word));
            findings.extend(hit.map(|word| {
                Finding::new("words", &file.path, i + 1, format!("`{word}` must not be left here"))
            }));
        }
        findings.extend(check_code(file));
    }
    findings
}

fn check_code(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else {
        return Vec::new();
    };
    let sleeps_matter = file.path.contains("/tests/");
    let mut findings = Vec::new();
    for (i, token) in source.tokens.iter().enumerate() {
        let next =
            |ahead: usize, text| source.tokens.get(i + ahead).is_some_and(|t: &Token| t.is(text));
        let mut find = |rule, message: &str| {
            findings.push(Finding::new(rule, &file.path, token.line, message))
        };
        let is_macro = MACROS.iter().any(|name| token.is(name)) && next(1, "!");
        if is_macro && token.kind == Kind::Word {
            find("words", &format!("`{}!` must not be left here", token.text));
        }
        if token.is("[") && next(1, "ignore") && next(2, "]") {
            find("words", "`#[ignore]` without a reason");
        }
        if sleeps_matter && token.is("thread") && next(1, ":") && next(2, ":") && next(3, "sleep") {
            find("sleep", "a test that sleeps: wait for the event instead");
        }
    }
    findings
}

/// Whether `row` contains `word` and no letter, digit or similar touches it in front; a mark
/// must end there, too.
fn contains_word(row: &str, word: &str) -> bool {
    let touches = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '}');
    let is_mark = !word.ends_with('/');
    row.match_indices(word).any(|(at, _)| {
        let before = row[..at].chars().next_back();
        let after = row[at + word.len()..].chars().next();
        let goes_on = is_mark && after.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !(goes_on || before.is_some_and(touches))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: usize) {
        assert_eq!(check(&Tree::sample(&[(path, text)])).len(), expected, "{path}: {text}");
    }

    #[test]
    fn marks_are_found_in_every_file() {
        for mark in MARKS {
            check_text("a.md", &format!("one\n{mark}: two"), 1);
            check_text("a/src/b.rs", &format!("// {mark}(me) later"), 1);
            check_text("a.md", &format!("{mark}X and A{mark}"), 0);
        }
    }

    #[test]
    fn private_places_are_found() {
        for place in PLACES {
            check_text(".ci/run", &format!("cd {place}main"), 1);
            check_text("a.md", &format!("\"{place}x\""), 1);
            check_text("a.md", &format!("docs{place}x ./a{place} ..{place}"), 0);
        }
    }

    #[test]
    fn left_behind_macros_are_found() {
        for name in MACROS {
            check_text("a/src/b.rs", &format!("fn f() {{ {name}!() }}"), 1);
            check_text("a/src/b.rs", &format!("fn {name}() {{ \"{name}!\" }} // {name}!()"), 0);
        }
    }

    #[test]
    fn tests_neither_sleep_nor_vanish() {
        check_text("a/src/b.rs", "#[ignore]\nfn f() {}", 1);
        check_text("a/src/b.rs", "#[ignore = \"needs a server\"]\nfn f() {}", 0);
        check_text("a/tests/b.rs", "fn f() { std::thread::sleep(x) }", 1);
        check_text("a/src/b.rs", "fn f() { std::thread::sleep(x) }", 0);
    }
}
