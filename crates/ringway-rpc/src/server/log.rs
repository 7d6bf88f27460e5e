//! Logging: subscribers are user code, so their panics are contained.

use ringway_runtime::contain;

/// Runs a logging call and contains panics of the subscriber.
pub(super) fn log(tell: impl FnOnce()) {
    contain(SUBSCRIBER, tell);
}

/// The name of subscribers in reports of their panics.
pub(super) const SUBSCRIBER: &str = "a log subscriber";
