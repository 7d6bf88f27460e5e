//! Links of the documents lead somewhere, and every example is short and run by a test.

use super::finding::Finding;
use super::lexer::Kind;
use super::modules::join;
use super::tree::Tree;

const EXAMPLES: &str = "crates/ringway/examples/";
const EXAMPLE_TESTS: &str = "crates/ringway/tests/";

/// An example is read in one sitting: fewer lines than this.
const EXAMPLE_LINES: usize = 100;

/// Relative links in Markdown files point at files of the project.
pub(crate) fn check_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        let (directory, _) = file.path.rsplit_once('/').unwrap_or(("", ""));
        for (line, target) in links(&file.text) {
            let path = target.split(['#', ' ']).next().unwrap_or("");
            let is_elsewhere = target.starts_with('#') || target.contains(':');
            let path = path.strip_prefix('/').map_or_else(|| join(directory, path), str::to_owned);
            if !is_elsewhere && !tree.holds(&path) {
                let message = format!("`{target}` leads nowhere");
                findings.push(Finding::new("links", &file.path, line, message));
            }
        }
    }
    findings
}

/// Every example is named in a test, by its file stem or directory, and is short.
pub(crate) fn check_examples(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.sources(EXAMPLES) {
        let lines = file.text.lines().count();
        if lines >= EXAMPLE_LINES {
            let message = format!("{lines} lines, must be under {EXAMPLE_LINES}");
            findings.push(Finding::new("examples", &file.path, 1, message));
        }
        let name = file.path[EXAMPLES.len()..].split(['/', '.']).next().unwrap_or("");
        if !is_named_in_tests(tree, name) {
            let message = format!("no test in {EXAMPLE_TESTS} names `{name}`");
            findings.push(Finding::new("examples", &file.path, 1, message));
        }
    }
    findings
}

fn is_named_in_tests(tree: &Tree, name: &str) -> bool {
    let is_name = |text: &str| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
            .any(|word| word == name)
    };
    tree.sources(EXAMPLE_TESTS).any(|(_, source)| {
        let mut tokens = source.tokens.iter().filter(|t| matches!(t.kind, Kind::Word | Kind::Text));
        tokens.any(|token| is_name(&token.text))
    })
}

/// Targets of inline links and of `[name]: target` lines, code left out, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (i, row) in text.lines().enumerate() {
        is_code ^= row.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        if let Some((_, target)) = row.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((i + 1, target.trim()));
        }
        for (at, _) in row.match_indices("](") {
            let is_in_code = row[..at].matches('`').count() % 2 == 1;
            let target = row[at + 2..].split(')').next().filter(|_| !is_in_code);
            found.extend(target.map(|target| (i + 1, target)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_link(text: &str, expected: usize) {
        let tree = Tree::sample(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]);
        assert_eq!(check_links(&tree).len(), expected, "{text}");
    }

    #[test]
    fn links_lead_to_files() {
        check_link("[b](b.md) [c](../README.md#top) [d](/docs) [e](https://x.y/z) [f](#here)", 0);
        check_link("[b](c.md)", 1);
        check_link("[b]: ../b.md", 1);
        check_link("`[b](c.md)`\n```\n[b](c.md)\n```\n", 0);
    }

    #[track_caller]
    fn check_example(example: &str, test: &str, expected: usize) {
        let tree = Tree::sample(&[
            ("crates/ringway/examples/idle_kick.rs", example),
            ("crates/ringway/tests/examples.rs", test),
        ]);
        assert_eq!(check_examples(&tree).len(), expected, "{test}");
    }

    #[test]
    fn examples_are_short_and_run() {
        check_example("fn main() {}", "run(\"idle_kick\");", 0);
        check_example("fn main() {}", "run(\"idle_kicks\"); // idle_kick", 1);
        check_example(&"\n".repeat(99), "mod idle_kick {}", 0);
        check_example(&"\n".repeat(100), "mod idle_kick {}", 1);
    }
}
