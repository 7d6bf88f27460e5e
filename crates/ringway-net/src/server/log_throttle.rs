//! Rate limiting of log messages.

use std::cell::Cell;
use std::time::Instant;

use ringway_runtime::now;

use crate::limits;

/// Lets one message through per [`LOG_PAUSE`](limits::LOG_PAUSE) and counts the others, because
/// peers or a lack of descriptors could otherwise flood the log.
#[derive(Default)]
pub(crate) struct LogThrottle {
    last: Cell<Option<Instant>>,
    kept_back: Cell<u64>,
}

impl LogThrottle {
    /// Whether to log now; `Some` holds the number of messages suppressed since the last one.
    pub(crate) fn admit(&self) -> Option<u64> {
        let now = now();
        let is_soon = |last: Instant| now.saturating_duration_since(last) < limits::LOG_PAUSE;
        if self.last.get().is_some_and(is_soon) {
            self.kept_back.set(self.kept_back.get() + 1);
            return None;
        }
        self.last.set(Some(now));
        Some(self.kept_back.take())
    }
}

#[cfg(test)]
mod tests {
    use ringway_runtime::{Builder, sim::SimConfig, sleep};

    use super::*;

    #[test]
    fn message_is_logged_once_per_pause_with_the_suppressed_count() {
        let throttle = async {
            let throttle = LogThrottle::default();
            let admitted: Vec<_> = (0..4).map(|_| throttle.admit()).collect();
            assert_eq!(admitted, [Some(0), None, None, None]);
            sleep(limits::LOG_PAUSE).await;
            assert_eq!((throttle.admit(), throttle.admit()), (Some(3), None));
        };
        Builder::simulate(SimConfig::default(), throttle).expect("a simulated clock");
    }
}
