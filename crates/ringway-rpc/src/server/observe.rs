//! What calls were like: the one place that is told of each.

use std::time::Duration;

use tracing::Span;

use super::answer::Answered;
use super::core::ServerCore;
use super::entry::Entry;
use super::waiting::Measures;
use crate::context::Context;
use crate::metrics::CallEnd;
use crate::status::Code;

/// The span of a call in the trace that its caller named. Disabled, and made by one look at a flag,
/// where nobody listens.
#[inline]
pub(super) fn span_of(context: &Context) -> Span {
    tracing::info_span!(
        "call",
        method = context.method().name(),
        peer = context.peer().address().map(tracing::field::display),
        trace = context.trace().map(tracing::field::display),
        code = tracing::field::Empty,
    )
}

/// Adds how a call ended to its span.
#[inline]
pub(super) fn close_span(span: &Span, code: Code) {
    if !span.is_disabled() {
        span.record("code", tracing::field::display(code));
    }
}

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
        let has_news = entry.learn(service, now);
        entry.leave();
        if has_news {
            self.publish_lease(now);
        }
    }

    /// When a call begins to be served that is begun now: calls of one view follow each other.
    #[inline]
    pub(super) fn begins_at(&self, admitted: Duration) -> Duration {
        admitted.max(self.last_look())
    }
}
