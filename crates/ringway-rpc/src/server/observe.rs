//! What calls were like: the one place that is told of each.

use std::time::Duration;

use super::answer::Answered;
use super::core::ServerCore;
use super::entry::Entry;
use super::waiting::Measures;
use crate::metrics::CallEnd;

impl ServerCore {
    /// Counts a call that has ended, and gives back its place. The only look at the clock that a
    /// call in place costs is here: one call's end is the next one's beginning.
    #[inline]
    pub(super) fn end(&self, entry: &Entry, measures: Measures, answered: Answered) {
        let now = self.look_at_clock();
        let service = now.saturating_sub(measures.began);
        entry.sheet().ended(CallEnd {
            code: answered.code,
            bytes_out: answered.bytes,
            queue: measures.waited,
            service,
        });
        entry.learn(service, now);
        entry.leave();
    }

    /// When a call begins to be served that is begun now: calls of one view follow each other.
    #[inline]
    pub(super) fn begins_at(&self, admitted: Duration) -> Duration {
        admitted.max(self.last_look())
    }
}
