//! Bounds of what a server takes on, and of its end.

use std::time::Duration;

/// How long a drain may take before the log names the methods that it waits for: most calls are over by then.
pub(crate) const DRAIN_TOLD_AFTER: Duration = Duration::from_secs(1);
/// The longest pause between two such lines, which double: a drain without a limit may take hours.
pub(crate) const DRAIN_TOLD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Methods that such a line names: who reads it looks for the one that does not end.
pub(crate) const DRAIN_METHODS_TOLD: usize = 8;
