//! One idea a file, a screen a function.

use super::finding::Finding;
use super::source::Source;
use super::tree::{File, Tree};
use std::cmp::Reverse;

/// Lines of a file without its test code.
const FILE_LINES_MAX: usize = 500;

/// Lines of a file with its test code.
const WHOLE_FILE_LINES_MAX: usize = 800;

/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// How many of the longest are printed.
const LONGEST: usize = 5;

/// Files and functions keep to their sizes.
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
        let long = source.functions().into_iter().filter(|f| f.lines > FUNCTION_LINES_MAX);
        findings.extend(long.map(|f| {
            let message =
                format!("`{}` has {} lines, at most {FUNCTION_LINES_MAX}", f.name, f.lines);
            Finding::new("size", &file.path, f.line, message)
                .at(format!("{}#{}", file.path, f.name))
        }));
    }
    findings
}

/// The longest files and functions of the product, an invitation to look.
pub(crate) fn longest(tree: &Tree) -> Vec<String> {
    let mut files = Vec::new();
    let mut functions = Vec::new();
    for (file, source) in tree.sources("").filter(|(file, _)| !file.is_test) {
        files.push((product_lines(file, source), file.path.clone()));
        let product = source.functions().into_iter().filter(|f| !source.is_test_line(f.line));
        functions
            .extend(product.map(|f| (f.lines, format!("{}:{} {}", file.path, f.line, f.name))));
    }
    let mut rows = Vec::new();
    for (title, mut list) in [("longest files", files), ("longest functions", functions)] {
        list.sort_by_key(|&(lines, _)| Reverse(lines));
        rows.push(format!("{title}:"));
        rows.extend(list.iter().take(LONGEST).map(|(lines, name)| format!("{lines:>6} {name}")));
    }
    rows
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
            check(&Tree::sample(&[(path, text)])).into_iter().map(|f| f.place).collect();
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
    fn functions_are_bounded() {
        let function =
            |lines: usize| format!("fn long() {{\n{}}}\n", "    x('{');\n".repeat(lines - 2));
        check_text("a/src/b.rs", &function(70), &[]);
        check_text("a/src/b.rs", &function(71), &["a/src/b.rs#long"]);
    }

    #[test]
    fn the_longest_come_first() {
        let tree = Tree::sample(&[("a.rs", "fn f() {}\n"), ("b.rs", "fn g() {\n}\n")]);
        assert_eq!(longest(&tree)[1..3], ["     2 b.rs", "     1 a.rs"]);
        assert_eq!(longest(&tree)[4], "     2 b.rs:1 g");
    }
}
