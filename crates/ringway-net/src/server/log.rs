//! Logging through subscribers, which are foreign code.

use ringway_runtime::contain;

/// Runs `tell`, which makes one event, and contains a panic of the subscriber: accepting, datagrams
/// and shutdowns must go on.
pub(crate) fn log(tell: impl FnOnce()) {
    contain("a log subscriber", tell);
}
