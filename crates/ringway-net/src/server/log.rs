//! Telling what listens to the log, which is foreign code.

use ringway_runtime::contain;

/// Runs `tell`, which is to make one event. A panic ends here: whatever is listening, connections are
/// accepted, datagrams handled and shutdowns finished.
pub(crate) fn log(tell: impl FnOnce()) {
    contain("what listens to the log", tell);
}
