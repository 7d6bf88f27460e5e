//! Words that mark unfinished work, and paths of one person's machine.

use super::finding::Finding;
use super::tree::{File, Tree};

/// Marks of unfinished work, split so that this file does not contain them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Places that exist on one machine only, split for the same reason.
const PLACES: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Written by cargo, or a fixed legal text.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// No marks of unfinished work and no private paths.
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
    }
    findings
}

/// Whether `row` contains `word` with no letter, digit or similar character before it; a mark must also
/// end there.
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
}
