//! Connect's conformance suite against our server and our client. `cargo xtask test --only interop` runs it.
//!
//! Cases that fail are listed beside this file, each with its reason. The suite fails as well when one of them passes.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

#[test]
fn our_server_does_what_the_suite_asks() {
    run("server", 5_000);
}

#[test]
fn our_client_does_what_the_suite_asks() {
    run("client", 800);
}

/// Runs the suite, of which so many cases at least are for the tested side.
fn run(side: &str, cases_min: u32) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/connect_conformance");
    let mut suite = Command::new("timeout");
    suite.arg(SECONDS_MAX).arg(program()).args(["--mode", side]);
    suite.arg("--conf").arg(here.join(format!("{side}.yaml")));
    suite.arg("--known-failing").arg(format!("@{}", here.join(format!("{side}.txt")).display()));
    suite.args(["--", env!("CARGO_BIN_EXE_connect_conformance"), side]);
    let output = suite.output().expect("the suite runs");
    let mut told = String::from_utf8_lossy(&output.stdout).into_owned();
    told += &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let (passed, _) = told.rsplit_once(" passed, ").expect("the suite counts its cases");
    let passed = passed.rsplit([' ', '\n']).next().and_then(|count| count.parse().ok());
    assert!(passed.is_some_and(|passed: u32| passed >= cases_min), "{told}");
}

/// The slower side takes a minute on two busy cores.
const SECONDS_MAX: &str = "600";

/// The suite, built once from the module in `go/`, which names and checks its version.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("connectconformance");
        let mut build = Command::new("go");
        build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/go"));
        build.args(["build", "-o"]).arg(&program);
        build.arg("connectrpc.com/conformance/cmd/connectconformance");
        let status = build.status().expect("Go is needed: https://go.dev/doc/install");
        assert!(status.success(), "{build:?}: {status}");
        program
    })
}
