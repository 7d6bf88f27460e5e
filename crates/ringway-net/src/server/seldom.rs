//! Saying seldom what happens often.

use std::cell::Cell;
use std::time::Instant;

use ringway_runtime::now;

use crate::limits;

/// Lets a message through once a moment, and counts those in between: what a peer or a lack of
/// descriptors can bring about any number of times must not flood a log.
#[derive(Default)]
pub(crate) struct Seldom {
    last: Cell<Option<Instant>>,
    kept_back: Cell<u64>,
}

impl Seldom {
    /// Whether to say it now, and how often it was kept back before.
    pub(crate) fn says(&self) -> Option<u64> {
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
    fn a_message_is_said_once_a_moment_and_tells_how_many_were_not() {
        let seldom = async {
            let seldom = Seldom::default();
            let said: Vec<_> = (0..4).map(|_| seldom.says()).collect();
            assert_eq!(said, [Some(0), None, None, None]);
            sleep(limits::LOG_PAUSE).await;
            assert_eq!((seldom.says(), seldom.says()), (Some(3), None));
        };
        Builder::simulate(SimConfig::default(), seldom).expect("a simulated clock");
    }
}
