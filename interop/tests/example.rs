//! The example `grpc_interop` runs to its end, and what it reports is as it has to be.

use std::path::PathBuf;
use std::process::Command;

const REPORT: &str = "our client calls tonic's server
  square of 12: 144, served to Ada
  square of -1: INVALID_ARGUMENT, no number below zero
  sum of 1, 2, 3: 6
  count to 3: [1, 2, 3]
  double of 7, 8: [14, 16]
tonic's client calls our server
  square of 12: 144, served to Ada
  square of -1: INVALID_ARGUMENT, no number below zero
  sum of 1, 2, 3: 6
  count to 3: [1, 2, 3]
  double of 7, 8: [14, 16]
";

/// Where cargo puts examples: beside the directory of the test programs.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("the test runs");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps");
    profile.join("examples/grpc_interop")
}

#[test]
fn both_ways_bring_the_same() {
    let path = example();
    assert!(path.exists(), "build it by cargo build -p ringway-interop --examples: {path:?}");
    let output = Command::new("timeout").arg("60").arg(path).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), REPORT);
}
