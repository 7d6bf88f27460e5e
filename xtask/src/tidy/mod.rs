//! The project's own checks: what neither the compiler nor clippy knows.
//!
//! Each check is a function from the [`Tree`] to findings, in a file of its own, with
//! tests that feed it bad text. What may stand nevertheless is listed in `exceptions.rs`.

mod documents;
mod exceptions;
mod layers;
mod lexer;
mod manifest;
mod modules;
mod purity;
mod sizes;
mod source;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::io;
use std::path::Path;
use tree::Tree;

const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    layers::check,
    purity::check_wire,
    purity::check_runtime,
    purity::check_facade,
    unsafety::check,
    sizes::check,
    words::check,
    modules::check,
    manifest::check,
    documents::check_links,
    documents::check_examples,
];

/// A place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    rule: &'static str,
    path: String,
    line: usize,
    message: String,
    /// What an exception names: the path, or something finer.
    place: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding {
            rule,
            path: path.to_owned(),
            line,
            message: message.into(),
            place: path.to_owned(),
        }
    }

    fn at(self, place: String) -> Self {
        Finding { place, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule, path, line, message, place: _ } = self;
        write!(f, "{path}:{line}: [{rule}] {message}")
    }
}

/// Checks the project at `root`, prints what breaks a rule, and tells whether nothing does.
///
/// # Errors
///
/// When a file of the project cannot be read.
pub(crate) fn run(root: &Path) -> io::Result<bool> {
    let tree = Tree::read(root)?;
    let findings = findings(&tree);
    for row in sizes::longest(&tree) {
        println!("{row}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let findings = CHECKS.iter().flat_map(|check| check(tree)).collect();
    exceptions::apply(&exceptions::EXCEPTIONS, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        let tree = Tree::read(crate::root()).expect("the project's files are readable");
        assert!(tree.file("xtask/src/main.rs").is_some(), "the project was read from its root");
        let findings: Vec<String> = findings(&tree).iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    }
}
