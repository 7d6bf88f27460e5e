//! How much there is to read: lines of each crate, of the product and of its tests.

use super::source::Source;
use super::tree::{File, Tree};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Lines of Rust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    files: usize,
    /// What is neither a test nor blank, comments included.
    product: usize,
    /// Those of the product that are comments and nothing else.
    comments: usize,
    /// Test files, and what only tests compile.
    tests: usize,
}

/// One line for each crate, and one for all.
pub(super) fn report(tree: &Tree) -> Vec<String> {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for (file, source) in tree.sources("") {
        *crates.entry(package(tree, &file.path)).or_default() += lines(file, source);
    }
    let mut all = Lines::default();
    crates.values().for_each(|lines| all += *lines);
    let head =
        format!("{:30} {:>6} {:>8} {:>9} {:>8}", "", "files", "product", "comments", "tests");
    let row = |(name, lines): (&str, Lines)| {
        let Lines { files, product, comments, tests } = lines;
        format!("{name:30} {files:>6} {product:>8} {comments:>9} {tests:>8}")
    };
    let rows = crates.into_iter().chain([("all", all)]).map(row);
    [head].into_iter().chain(rows).collect()
}

/// The directory of the innermost package that has the file.
fn package<'a>(tree: &'a Tree, path: &str) -> &'a str {
    let all = tree.manifests().map(|manifest| manifest.path.trim_end_matches("/Cargo.toml"));
    let around = all.filter(|directory| {
        path.strip_prefix(directory).is_some_and(|below| below.starts_with('/'))
    });
    around.max_by_key(|directory| directory.len()).unwrap_or("no package")
}

fn lines(file: &File, source: &Source) -> Lines {
    let mut lines = Lines { files: 1, ..Lines::default() };
    for (number, text) in (1..).zip(file.text.lines()) {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if file.is_test || source.is_test_line(number) {
            lines.tests += 1;
        } else {
            lines.product += 1;
            lines.comments += usize::from(text.starts_with("//"));
        }
    }
    lines
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.product += other.product;
        self.comments += other.comments;
        self.tests += other.tests;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_and_tests_are_told_apart() {
        let text =
            "//! A.\n\nuse b::C;\n// Why.\nfn f() {} // how\n\n#[cfg(test)]\nmod tests {\n\n}\n";
        let tree = Tree::sample(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", text),
            ("crates/a/tests/b.rs", "fn g() {}\n\nfn h() {}\n"),
            ("crates/a/inner/Cargo.toml", ""),
            ("crates/a/inner/src/lib.rs", "fn f() {}\n"),
        ]);
        let rows = report(&tree);
        let words = |row: &String| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&rows[1]), ["crates/a", "2", "4", "2", "5"]);
        assert_eq!(words(&rows[2]), ["crates/a/inner", "1", "1", "0", "0"]);
        assert_eq!(words(&rows[3]), ["all", "3", "5", "2", "5"]);
    }
}
