//! Tests that need a process of their own, because they count or change a resource of the whole process.

use std::any::type_name;
use std::process::Command;

/// Names the one test that a process runs.
const ALONE: &str = "RINGWAY_TEST_ALONE";

/// Runs the body of the calling test, a closure, in a process of its own.
pub(crate) fn alone<F: FnOnce()>(body: F) {
    let path = type_name::<F>();
    let test = path.strip_suffix("::{{closure}}").expect("a closure");
    let (_, test) = test.split_once("::").expect("below the program's name");
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return body();
    }
    let program = std::env::current_exe().expect("a test knows its program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(ALONE, test);
    let output = command.output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    print!("{told}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "in a process of its own: {}", output.status);
    assert!(told.contains("test result: ok. 1 passed"), "no test has the name {test}");
}

/// Whether this process runs one test only.
#[allow(dead_code, reason = "not every program of tests counts allocations")]
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}
