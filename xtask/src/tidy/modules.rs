//! Follows `mod name;` from the crate roots: a file nobody names is dead weight.

use super::finding::Finding;
use super::lexer::Kind;
use super::manifest;
use super::source::OutsideModule;
use super::tree::{File, Tree};
use std::collections::BTreeMap;

/// Every Rust file is compiled: a root, named by a `mod`, or named in a string (`include!`).
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let reached = reached(tree);
    let lost = tree
        .sources("")
        .filter(|(file, _)| !reached.contains_key(&file.path) && !is_named_in_a_string(tree, file));
    lost.map(|(file, _)| {
        Finding::new("reach", &file.path, 1, "no `mod` names this file: name it or remove it")
    })
    .collect()
}

/// The files that only tests compile because a `#[cfg(test)] mod` leads to them.
pub(crate) fn test_files(tree: &Tree) -> Vec<String> {
    reached(tree).into_iter().filter(|&(_, is_test)| is_test).map(|(path, _)| path).collect()
}

/// Every reached file, and whether every way to it passes a test-only module.
fn reached(tree: &Tree) -> BTreeMap<String, bool> {
    let mut reached = BTreeMap::new();
    let mut queue: Vec<(String, bool)> =
        roots(tree).into_iter().map(|root| (root, false)).collect();
    let root_count = queue.len();
    let mut next = 0;
    while let Some((path, is_test)) = queue.get(next).cloned() {
        let is_root = next < root_count;
        next += 1;
        let known = reached.get(&path).copied();
        if known == Some(false) || known == Some(is_test) {
            continue;
        }
        let Some(source) = tree.file(&path).and_then(|file| file.source.as_ref()) else {
            continue;
        };
        for module in source.outside_modules() {
            let is_test = is_test || source.is_test_line(module.line);
            let candidates = candidates(&path, is_root, &module);
            queue.extend(candidates.into_iter().map(|candidate| (candidate, is_test)));
        }
        reached.insert(path, is_test);
    }
    reached
}

/// The files Cargo compiles by itself, and those a manifest names by `path`.
pub(super) fn roots(tree: &Tree) -> Vec<String> {
    let mut roots = Vec::new();
    for file in tree.manifests() {
        let directory = file.path.trim_end_matches("Cargo.toml");
        let local = |path: &str| path.strip_prefix(directory).is_some_and(is_cargo_root);
        roots.extend(tree.sources(directory).map(|(f, _)| f.path.clone()).filter(|p| local(p)));
        roots.extend(manifest::paths(&file.text).map(|path| format!("{directory}{path}")));
    }
    roots
}

/// `path` is relative to the package.
fn is_cargo_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "examples" | "benches", _]
            | ["tests" | "examples" | "benches", _, "main.rs"]
    )
}

/// Where the text of `module`, declared in the file `from`, may stand.
pub(super) fn candidates(from: &str, is_root: bool, module: &OutsideModule) -> Vec<String> {
    let (directory, name) = from.rsplit_once('/').unwrap_or(("", from));
    if let Some(file) = &module.file {
        return vec![join(directory, file)];
    }
    let stem = name.trim_end_matches(".rs");
    let base = if is_root || stem == "mod" { directory.to_owned() } else { join(directory, stem) };
    let path = join(&base, &module.path.join("/"));
    vec![format!("{path}.rs"), format!("{path}/mod.rs")]
}

/// Whether a string of the same package names `file`, by its path or by `directory/*.rs`.
fn is_named_in_a_string(tree: &Tree, file: &File) -> bool {
    let package = tree.manifests().map(|m| m.path.trim_end_matches("Cargo.toml"));
    let package =
        package.filter(|p| file.path.starts_with(p)).max_by_key(|p| p.len()).unwrap_or("");
    let (directory, _) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let glob = join(directory, "*.rs");
    tree.sources(package).any(|(other, source)| {
        let (beside, _) = other.path.rsplit_once('/').unwrap_or(("", &other.path));
        let strings = source.tokens.iter().filter(|t| t.kind == Kind::Text);
        strings.map(|t| &t.text).any(|text| {
            let places = [join(package.trim_end_matches('/'), text), join(beside, text)];
            places.iter().any(|place| *place == file.path || *place == glob)
        })
    })
}

/// Joins a directory and a relative path, resolving `.` and `..`.
pub(crate) fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lost(files: &[(&str, &str)], lost: &[&str]) {
        let mut all = vec![("a/Cargo.toml", "[[bin]]\npath = \"odd/place.rs\"")];
        all.extend(files);
        let found: Vec<_> = check(&Tree::sample(&all)).into_iter().map(|f| f.path).collect();
        assert_eq!(found, lost);
    }

    #[test]
    fn a_file_without_a_mod_is_lost() {
        check_lost(
            &[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", ""), ("a/src/c.rs", "")],
            &["a/src/c.rs"],
        );
        check_lost(&[("a/src/lib.rs", "// mod b;"), ("a/src/b/mod.rs", "")], &["a/src/b/mod.rs"]);
    }

    #[test]
    fn modules_are_followed_down() {
        check_lost(
            &[
                ("a/src/main.rs", "mod b; #[path = \"other/c.rs\"] mod c;"),
                ("a/src/b.rs", "mod d;"),
                ("a/src/b/d.rs", ""),
                ("a/src/other/c.rs", ""),
                ("a/tests/t.rs", "mod common;"),
                ("a/tests/common/mod.rs", ""),
            ],
            &[],
        );
    }

    #[test]
    fn manifests_and_strings_name_files() {
        check_lost(
            &[
                ("a/odd/place.rs", ""),
                ("a/tests/ui.rs", "fn f() { t.compile_fail(\"tests/ui/*.rs\"); }"),
                ("a/tests/ui/case.rs", ""),
                ("a/build.rs", "include!(\"src/shared.rs\");"),
                ("a/src/shared.rs", ""),
            ],
            &[],
        );
    }

    #[test]
    fn joining_resolves_dots() {
        assert_eq!(join("a/b", "../c/./d.md"), "a/c/d.md");
        assert_eq!(join("", "x"), "x");
    }
}
