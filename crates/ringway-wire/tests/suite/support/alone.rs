//! Tests that need a process of their own, because they count or change a resource of the whole process, and
//! tests that need that no process begins meanwhile.

use std::any::type_name;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

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
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = start(&mut command).and_then(Child::wait_with_output).expect("it starts");
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

/// Held for writing while a process begins.
static BEGINS: RwLock<()> = RwLock::new(());

/// Starts `command`. Every test that starts a process does it here, so that `NoForks` holds.
///
/// # Errors
/// Fails like `Command::spawn`, which returns when the new process has closed its copies of descriptors.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    let _begins = BEGINS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// While it lives, no other test starts a process. Between fork and exec a process holds copies of all descriptors,
/// so that a listener that is closed meanwhile still has its address and takes connections.
#[allow(dead_code, reason = "not every program of tests closes listeners")]
pub(crate) struct NoForks(RwLockReadGuard<'static, ()>);

#[allow(dead_code, reason = "not every program of tests closes listeners")]
impl NoForks {
    pub(crate) fn begin() -> Self {
        Self(BEGINS.read().unwrap_or_else(PoisonError::into_inner))
    }
}
