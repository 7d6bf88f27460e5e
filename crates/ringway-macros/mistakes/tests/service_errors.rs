//! Compile errors of bad service traits: their place, and what they advise.

use std::env;
use std::process::Command;

/// Puts another compiler in rustc's place. Clippy's, which the gate sets, calls some things by other names.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

#[test]
fn mistakes_are_explained() {
    if env::var_os(WRAPPER).is_some_and(|wrapper| !wrapper.is_empty()) {
        let this = env::current_exe().expect("a test knows its program");
        let status = Command::new(this).env_remove(WRAPPER).status();
        assert!(status.expect("it runs again").success(), "what it says stands above");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
