//! `unsafe` stands in few places, small ones, and always says why it is sound.

use super::finding::Finding;
use super::source::Source;
use super::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The runtime's part that speaks with the kernel.
const SYS: &str = "crates/ringway-runtime/src/sys/";

/// Where `unsafe` may stand: the kernel part, and the bare comparison loop on io_uring.
const PLACES: &[&str] = &[SYS, "peers/src/uring.rs"];

/// Programs that must not compile show what the macros say about `unsafe`.
const NEVER_COMPILED: &str = "/tests/ui/";

/// What one person can audit in an afternoon; counts lines with code, tests left out. The tables of
/// sends and of file operations are among them: they are what makes lending memory to the kernel sound.
const SYS_CODE_LINES_MAX: usize = 920;

/// How many lines of code may stand between `unsafe` and its comment, for a statement that
/// starts above the keyword.
const LINES_BETWEEN_MAX: usize = 2;

/// `unsafe` keeps to its places, is explained, and does not grow.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .sources("")
        .filter(|(file, _)| !file.path.contains(NEVER_COMPILED))
        .flat_map(|(file, source)| check_file(file, source))
        .collect();
    let lines: usize =
        tree.sources(SYS).filter(|(f, _)| !f.is_test).map(|(_, s)| code_lines(s)).sum();
    if lines > SYS_CODE_LINES_MAX {
        let message = format!("{lines} lines of code, at most {SYS_CODE_LINES_MAX}");
        findings.push(Finding::new("unsafe", SYS, 1, message));
    }
    findings
}

/// Lines with a token on them, test code left out.
fn code_lines(source: &Source) -> usize {
    source.product_tokens().iter().map(|t| t.line).collect::<BTreeSet<_>>().len()
}

fn check_file(file: &File, source: &Source) -> Vec<Finding> {
    let may_stand = PLACES.iter().any(|place| file.path.starts_with(place));
    let rows = Rows::new(source);
    let mut findings = Vec::new();
    for (i, token) in source.tokens.iter().enumerate().filter(|(_, t)| t.is("unsafe")) {
        let next = |ahead: usize| source.tokens.get(i + ahead).map_or("", |t| t.text.as_str());
        let is_function_pointer = next(1) == "fn" && next(2) == "("
            || next(1) == "extern" && next(3) == "fn" && next(4) == "(";
        let is_declaration = matches!(next(1), "fn" | "trait" | "extern");
        if !may_stand {
            findings.push(Finding::new(
                "unsafe",
                &file.path,
                token.line,
                "`unsafe` outside its places",
            ));
        } else if !is_function_pointer && !rows.explains(token.line, is_declaration) {
            let message = "`unsafe` without a `// SAFETY:` comment above or beside it";
            findings.push(Finding::new("unsafe", &file.path, token.line, message));
        }
    }
    findings
}

/// A file by lines: comments, and whether code other than attributes stands there.
struct Rows<'a> {
    comments: BTreeMap<usize, &'a str>,
    code: BTreeSet<usize>,
}

impl<'a> Rows<'a> {
    fn new(source: &'a Source) -> Self {
        let starts_attribute: BTreeSet<usize> =
            first_tokens(source).filter_map(|(line, text)| (text == "#").then_some(line)).collect();
        let code =
            source.tokens.iter().map(|t| t.line).filter(|line| !starts_attribute.contains(line));
        Rows {
            comments: source.comments.iter().map(|c| (c.line, c.text.as_str())).collect(),
            code: code.collect(),
        }
    }

    /// Whether a comment on `line` or just above it gives the reason.
    fn explains(&self, line: usize, is_declaration: bool) -> bool {
        let mut between = 0;
        for row in (1..=line).rev() {
            if let Some(text) = self.comments.get(&row)
                && (text.contains("SAFETY:") || (is_declaration && text.contains("# Safety")))
            {
                return true;
            }
            between += usize::from(row < line && self.code.contains(&row));
            if between > LINES_BETWEEN_MAX {
                return false;
            }
        }
        false
    }
}

/// The first token of every line that has one.
fn first_tokens(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut last = 0;
    source.tokens.iter().filter_map(move |token| {
        let is_first = token.line > last;
        last = token.line;
        is_first.then_some((token.line, token.text.as_str()))
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
    fn it_keeps_to_its_places() {
        check_text("crates/ringway-net/src/a.rs", "// SAFETY: no\nunsafe { f() }", 1);
        check_text(
            "crates/ringway-net/src/a.rs",
            "// unsafe { f() }\nconst A: &str = \"unsafe\";",
            0,
        );
        check_text("crates/ringway-net/tests/a.rs", "unsafe fn f() {}", 1);
        check_text("crates/ringway-net/tests/ui/a.rs", "unsafe fn f() {}", 0);
    }

    #[test]
    fn it_is_explained() {
        let path = "crates/ringway-runtime/src/sys/a.rs";
        for bad in [
            "fn f() {\n    unsafe { g() }\n}",
            "// SAFETY: far away\nfn f() {\n    let a = 1;\n    let b = 2;\n    unsafe { g() }\n}",
            "unsafe impl Send for A {}",
            "/// # Safety\n/// None.\nunsafe impl Send for A {}",
            "/// Does.\npub unsafe fn f() {}",
            "const S: &str = \"SAFETY:\"; unsafe { g() }",
        ] {
            check_text(path, bad, 1);
        }
        for good in [
            "// SAFETY: x\nunsafe { g() }",
            "// SAFETY: x\n// and y\nlet a =\n    unsafe { g() };",
            "unsafe { g() } // SAFETY: x",
            "/// Does.\n///\n/// # Safety\n///\n/// Never.\n#[inline]\npub unsafe fn f() {}",
            "struct A { f: unsafe fn(u8), g: unsafe extern \"C\" fn() }",
        ] {
            check_text(path, good, 0);
        }
    }

    #[test]
    fn the_kernel_part_stays_small() {
        let path = "crates/ringway-runtime/src/sys/a.rs";
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX)
        );
        let comments = "/// Says why.\n".repeat(SYS_CODE_LINES_MAX);
        check_text(
            path,
            &format!("{comments}{}{tests}", "const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX)),
            0,
        );
        check_text(path, &"const A: u8 = 1;\n".repeat(SYS_CODE_LINES_MAX + 1), 1);
    }
}
