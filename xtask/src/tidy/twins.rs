//! Two types of one name in a crate: whoever reads the one has to know that it is not the other.

use super::finding::Finding;
use super::known_twins::{KNOWN, KnownTwins};
use super::lexer::{Kind, Token};
use super::source::item_end;
use super::tree::Tree;
use std::collections::BTreeMap;

/// Where types of one name are: their crate, the name, and the place of each.
type Twins = BTreeMap<(String, String), Vec<Place>>;

struct Place {
    path: String,
    line: usize,
}

/// No two types of a crate have one name, but for those that are known.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    compare(twins(tree), &KNOWN)
}

/// What is not known is a finding, and so is what is known and gone.
fn compare(twins: Twins, known: &[KnownTwins]) -> Vec<Finding> {
    let count = |it: &KnownTwins| {
        let key = (it.root.to_owned(), it.name.to_owned());
        twins.get(&key).map_or(0, Vec::len)
    };
    let stale = known.iter().filter(|it| count(it) < it.count).map(|it| {
        let KnownTwins { root, name, count: listed, why } = it;
        let message = match count(it) {
            0 | 1 => format!("`{name}` ({why}) is unique in {root}: take it out of the list"),
            found => format!("{root} has {found} types `{name}`, not {listed}: correct the list"),
        };
        Finding::new("twins", LIST, 1, message)
    });
    let stale: Vec<Finding> = stale.collect();
    let is_known = |root: &str, name: &str, found: usize| {
        known.iter().any(|it| it.root == root && it.name == name && found <= it.count)
    };
    let unknown =
        twins.into_iter().filter(|((root, name), places)| !is_known(root, name, places.len()));
    unknown.map(|((root, name), places)| describe(&root, &name, &places)).chain(stale).collect()
}

fn describe(root: &str, name: &str, places: &[Place]) -> Finding {
    let all: Vec<String> =
        places.iter().map(|place| format!("\n  {}:{}", place.path, place.line)).collect();
    let message = format!("{root} has {} types `{name}`:{}", places.len(), all.concat());
    Finding::new("twins", &places[0].path, places[0].line, message)
}

const LIST: &str = "xtask/src/tidy/known_twins.rs";

/// The types that share their names with others of their crate.
fn twins(tree: &Tree) -> Twins {
    let mut types = Twins::new();
    let sources = tree.sources("").filter(|(file, _)| !file.is_test);
    for (file, source) in sources {
        let Some(root) = file.path.find("src/").map(|at| &file.path[..at + "src".len()]) else {
            continue;
        };
        for (name, line) in types_of(&source.product_tokens()) {
            let places = types.entry((root.to_owned(), name)).or_default();
            places.push(Place { path: file.path.clone(), line });
        }
    }
    types.retain(|_, places| places.len() > 1);
    types
}

/// The names of the types that `tokens` define, with their lines. Those that an `impl` or a trait names for
/// a type, like `Output`, belong to that type.
fn types_of(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut body_end = 0;
    for (i, pair) in tokens.windows(2).enumerate() {
        let [token, name] = pair else { continue };
        let starts_item = i == 0
            || ["{", "}", ";", "]", ")", "pub", "unsafe"]
                .iter()
                .any(|before| tokens[i - 1].is(before));
        if !starts_item {
            continue;
        }
        let is_body = token.is("impl") || token.is("trait");
        if is_body && i >= body_end {
            body_end = item_end(tokens, i);
        }
        let is_associated = token.is("type") && i < body_end;
        let is_type = ["struct", "enum", "union", "trait", "type"].iter().any(|it| token.is(it));
        if is_type && !is_associated && name.kind == Kind::Word {
            found.push((name.text.clone(), name.line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let found = types_of(&super::super::lexer::lex(text));
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn types_are_found_and_those_of_others_are_not() {
        check_text("pub struct A; enum B {} pub(crate) union C { a: u8 }", &["A", "B", "C"]);
        check_text("#[derive(Debug)]\npub trait D { type Of; fn f(); } type E = D;", &["D", "E"]);
        check_text("impl D for A { type Of = u8; } struct F;", &["F"]);
        check_text("fn f() -> impl D { struct G; } struct H;", &["G", "H"]);
        check_text("macro_rules! m { ($a:ident) => { struct $a; } }", &[]);
    }

    const TWO: [(&str, &str); 2] =
        [("crates/a/src/x.rs", "struct Link;"), ("crates/a/src/y.rs", "enum Link {}")];

    fn known(count: usize) -> KnownTwins {
        KnownTwins { root: "crates/a/src", name: "Link", count, why: "" }
    }

    #[track_caller]
    fn check_known(files: &[(&str, &str)], known: &[KnownTwins], part: &str) {
        let found = compare(twins(&Tree::sample(files)), known);
        let texts: Vec<String> = found.iter().map(Finding::to_string).collect();
        match part {
            "" => assert!(texts.is_empty(), "{texts:?}"),
            part => assert!(texts.len() == 1 && texts[0].contains(part), "{texts:?}"),
        }
    }

    #[test]
    fn two_of_one_name_need_a_place_in_the_list() {
        check_known(&TWO, &[], "crates/a/src has 2 types `Link`:\n  crates/a/src/x.rs:1");
        check_known(&TWO, &[known(2)], "");
        check_known(&TWO, &[known(3)], "has 2 types `Link`, not 3");
        check_known(&TWO[..1], &[known(2)], "`Link` () is unique");
        check_known(&[TWO[0], ("crates/b/src/y.rs", "struct Link;")], &[], "");
        check_known(&[TWO[0], ("crates/a/tests/y.rs", "struct Link;")], &[], "");
    }
}
