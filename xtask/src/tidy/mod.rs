//! The project's own checks: what neither the compiler nor clippy knows.
//!
//! Each check is a function from the [`Tree`] to findings, in a file of its own, with
//! tests that feed it bad text. What may stand nevertheless is listed in `exceptions.rs`.

mod documents;
mod exceptions;
mod finding;
mod imports;
mod known_twins;
mod layers;
mod lexer;
mod lines;
mod manifest;
mod modules;
mod paths;
mod purity;
mod sizes;
mod source;
mod tree;
mod twins;
mod unsafety;
mod words;

use finding::Finding;
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
    imports::check,
    twins::check,
    manifest::check,
    documents::check_links,
    documents::check_examples,
];

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// What breaks a rule, and the longest files.
    Findings,
    /// How many lines each crate has.
    Lines,
}

/// Looks at the project at `root`, prints what `view` asks for, and tells whether no rule is broken as far as
/// it has looked.
///
/// # Errors
///
/// When a file of the project cannot be read.
pub(crate) fn run(root: &Path, view: View) -> io::Result<bool> {
    let tree = Tree::read(root)?;
    let rows = match view {
        View::Findings => return Ok(print_findings(&tree)),
        View::Lines => lines::report(&tree),
    };
    rows.iter().for_each(|row| println!("{row}"));
    Ok(true)
}

fn print_findings(tree: &Tree) -> bool {
    let findings = findings(tree);
    for row in sizes::longest(tree) {
        println!("{row}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    findings.is_empty()
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
