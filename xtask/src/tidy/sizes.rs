//! The lengths of files. Clippy checks those of functions (`too_many_lines`).

use super::finding::Finding;
use super::source::Source;
use super::tree::{File, Tree};
use std::cmp::Reverse;

/// Lines of a file without its test code.
const FILE_LINES_MAX: usize = 500;

/// Lines of a file with its test code.
const WHOLE_FILE_LINES_MAX: usize = 800;

/// How many of the longest are printed.
const LONGEST: usize = 5;

/// Checks that no file is too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources("") {
        let (whole, product) = (file.text.lines().count(), product_lines(file, source));
        for (lines, limit, what) in [
            (product, FILE_LINES_MAX, "without tests"),
            (whole, WHOLE_FILE_LINES_MAX, "with tests"),
        ] {
            if lines > limit {
                let message = format!("{lines} lines {what}, at most {limit}");
                findings.push(Finding::new("size", &file.path, 1, message));
            }
        }
    }
    findings
}

/// The longest files of the product, an invitation to look at them.
pub(crate) fn longest(tree: &Tree) -> Vec<String> {
    let product = tree.sources("").filter(|(file, _)| !file.is_test);
    let mut files: Vec<_> =
        product.map(|(file, source)| (product_lines(file, source), &file.path)).collect();
    files.sort_by_key(|&(lines, _)| Reverse(lines));
    let rows = files.iter().take(LONGEST).map(|(lines, path)| format!("{lines:>6} {path}"));
    ["longest files:".to_owned()].into_iter().chain(rows).collect()
}

fn product_lines(file: &File, source: &Source) -> usize {
    let whole = file.text.lines().count();
    if file.is_test { 0 } else { (1..=whole).filter(|&line| !source.is_test_line(line)).count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, places: &[&str]) {
        let found: Vec<_> =
            check(&Tree::sample(&[(path, text)])).into_iter().map(|f| f.path).collect();
        assert_eq!(found, places);
    }

    #[test]
    fn files_are_bounded() {
        let product = |lines| "const A: u8 = 1;\n".repeat(lines);
        let tests = |lines| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", product(lines));
        check_text("a/src/b.rs", &product(500), &[]);
        check_text("a/src/b.rs", &product(501), &["a/src/b.rs"]);
        check_text("a/src/b.rs", &(product(500) + &tests(297)), &[]);
        check_text("a/src/b.rs", &(product(500) + &tests(298)), &["a/src/b.rs"]);
        check_text("a/tests/b.rs", &product(800), &[]);
    }

    #[test]
    fn the_longest_come_first() {
        let tree = Tree::sample(&[("a.rs", "fn f() {}\n"), ("b.rs", "fn g() {\n}\n")]);
        assert_eq!(longest(&tree), ["longest files:", "     2 b.rs", "     1 a.rs"]);
    }
}
