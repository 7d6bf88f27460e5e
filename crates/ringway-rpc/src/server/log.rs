//! What listens to the log is code of a user.

use ringway_runtime::contain;

/// Tells what listens to the log one event, whose panics end here.
pub(super) fn log(tell: impl FnOnce()) {
    contain(LISTENER, tell);
}

/// Whose panics end where it was called.
pub(super) const LISTENER: &str = "a listener to the log";
