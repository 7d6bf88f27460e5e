//! Which of the specifications' tests run, and why the others do not.

use std::fs;
use std::path::Path;

use crate::support::specs;

/// Folders whose tests do not run, also those below them, and the reasons.
const NOT_RUN: [(&str, &str); 13] = [
    ("auth/unified", "OIDC is left out"),
    (
        "bson_binary_vector",
        "vectors are numbers that the crate `bson` packs; the client sends them as they are",
    ),
    ("causal_consistency", "tests of our own hold what is read and written"),
    ("client-side-encryption", "encryption by the client is left out"),
    (
        "command_logging",
        "the log has words of its own; what is logged is told to observers, whose tests run",
    ),
    ("connection_logging", "the same"),
    ("server_selection_logging", "the same"),
    ("data_lake", "they need MongoDB's Data Lake, which is no more"),
    ("handshake", "what runs the tests appends no metadata; a test of our own does"),
    ("index_management", "they are of search indexes, which only MongoDB's cloud has"),
    ("lambda", "what they hold is a setting of a cloud, and no test"),
    (
        "unified-test-format/invalid",
        "they are files that a schema refuses, for who checks files by the schema",
    ),
    (
        "unified-test-format/valid-fail",
        "they are malformed: the runner panics at them, as at any test that it does not understand",
    ),
];

/// The sources of this crate and its tests, but this file.
fn sources(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with(file!()) {
            all.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}

#[test]
fn every_test_of_the_specifications_runs_or_has_a_reason() {
    let Some(folders) = specs::folders() else { return };
    let mut all = String::new();
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    sources(&home.join("src"), &mut all);
    sources(&home.join("tests"), &mut all);
    let is_named = |folder: &str| all.contains(&format!("\"{folder}\""));
    // Some tests name a folder and then those inside of it.
    let is_named_in_parts = |folder: &str| {
        let parts: Vec<&str> = folder.split('/').collect();
        (1..parts.len()).any(|at| {
            let (above, below) = parts.split_at(at);
            let begins = all.contains(&format!("{}/{{", above.join("/")));
            begins && below.iter().all(|part| is_named(part))
        })
    };
    let is_run = |folder: &str| is_named(folder) || is_named_in_parts(folder);
    let reason = |folder: &str| {
        let is_it = |(of, _): &&(&str, &str)| {
            folder.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        NOT_RUN.iter().find(is_it)
    };
    for folder in &folders {
        match reason(folder) {
            Some((of, _)) => assert!(!is_run(folder), "{folder} runs, though {of} is not to"),
            None => assert!(is_run(folder), "{folder} does not run, and has no reason"),
        }
    }
    for (of, _) in NOT_RUN {
        let is_there = folders.iter().any(|folder| reason(folder).is_some_and(|it| it.0 == of));
        assert!(is_there, "{of} is not there any more");
    }
}
