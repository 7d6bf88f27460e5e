//! The examples run to their ends, and their output is as expected.

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

/// The output of the gateway; its last reply has the client's status message, which names an address.
const ANSWERS: [&str; 3] = [
    "GET /quotes/RING: 200 {\"symbol\":\"RING\",\"cents\":4200}",
    "GET /quotes/TORUS: 404 nobody trades TORUS",
    "GET /quotes/RING without a service: 503 market.v1.Market/Quote: cannot connect to tcp://127.0.0.1:",
];

/// The directory of examples, beside that of the test programs.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test runs");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps");
    profile.join("examples").join(name)
}

/// Runs an example to its end and returns its output.
fn run(name: &str) -> String {
    let path = example(name);
    assert!(path.exists(), "build it by cargo build -p ringway-interop --examples: {path:?}");
    let output = Command::new("timeout").arg("60").arg(path).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn both_ways_bring_the_same() {
    assert_eq!(run("grpc_interop"), REPORT);
}

#[test]
fn the_gateway_answers_for_the_service() {
    let printed = run("axum_gateway");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), ANSWERS.len(), "{printed}");
    for (line, expected) in lines.iter().zip(ANSWERS) {
        assert!(line.starts_with(expected), "{line}");
    }
}
