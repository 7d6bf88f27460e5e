//! What calls were like: the one place that is told of each.
//!
//! A look at the clock costs a good part of what a small call costs. So calls of one method that are
//! served in place one after another are timed in rows: one look at the end of a row, and each of
//! its calls counts with an equal share of the time. That is kept honest in two ways. Where a row
//! took longer than short calls do, all that is unusual about it counts for one call, and the calls
//! after it are timed one by one until they are short again. And a row never spans two methods, a
//! handler that waits, or the end of what was received at once.

use std::time::Duration;

use ringway_runtime::{contain, drop_contained};
use tracing::Span;
use tracing::level_filters::LevelFilter;

use super::call_times::{Answered, CallTimes};
use super::core::ServerCore;
use super::log::LISTENER;
use super::method_entry::MethodEntry;
use crate::call::context::Context;
use crate::call::status::Code;
use crate::metrics::CallEnd;

/// The span of a call in the trace that its caller named. Disabled, and made by one look at a flag,
/// where nobody listens.
#[inline]
pub(super) fn span_of(context: &Context) -> Span {
    // With the `log` feature of tracing, which any crate of the program may turn on, the macro
    // computes its fields for nobody.
    if LevelFilter::current() < LevelFilter::INFO {
        return Span::none();
    }
    let span = contain(LISTENER, || {
        tracing::info_span!(
            "call",
            method = context.method().name(),
            peer = context.peer().address().map(tracing::field::display),
            trace = context.trace().map(tracing::field::display),
            code = tracing::field::Empty,
        )
    });
    span.unwrap_or_else(Span::none)
}

/// Closes a call's span, with how the call ended.
#[inline]
pub(super) fn close_span(span: Span, code: Code) {
    if !span.is_disabled() {
        contain(LISTENER, || span.record("code", tracing::field::display(code)));
        drop_contained(LISTENER, span);
    }
}

impl ServerCore {
    /// Counts a call that has ended, and gives back its place unless its work goes on.
    pub(super) fn end(&self, entry: &MethodEntry, times: CallTimes, answered: Answered) {
        self.end_at(self.look_at_clock(), entry, times, answered);
    }

    fn end_at(&self, now: Duration, entry: &MethodEntry, times: CallTimes, answered: Answered) {
        let service = now.saturating_sub(times.began);
        entry.sheet().ended(CallEnd {
            code: answered.code,
            bytes_out: answered.bytes,
            queue: times.waited,
            service,
        });
        let has_news = entry.learn(answered.code, service, now);
        entry.call_ended();
        if has_news {
            self.publish_lease(now);
        }
    }

    /// Does the same for a call that was done at once.
    #[inline(always)]
    pub(super) fn end_in_place(&self, place: usize, times: CallTimes, answered: Answered) {
        let (entry, row) = (self.entry(place), self.row());
        if !row.open.get() || entry.is_adaptive() || !times.waited.is_zero() {
            return self.end_at(self.spend_since(times.began), entry, times, answered);
        }
        entry.sheet().answered(answered.code, answered.bytes);
        entry.call_ended();
        let calls = row.calls.get();
        if calls == 0 {
            row.place.set(place);
            row.began.set(times.began);
        }
        row.calls.set(calls + 1);
        if calls + 1 >= row.room.get() {
            self.end_row();
        }
    }

    /// When a call begins to be served that is begun now: calls of one view follow each other.
    #[inline]
    pub(super) fn begins_at(&self, place: usize, admitted: Duration) -> Duration {
        if self.row().calls.get() > 0 && self.row().place.get() != place {
            self.end_row();
        }
        admitted.max(self.last_look())
    }

    /// What is known of a call whose handler begins only now, when those before it have had their time.
    /// It has waited if that was in another turn.
    #[inline]
    pub(super) fn put_off(&self, place: usize, times: CallTimes) -> CallTimes {
        let (turn, CallTimes { began, waited }) = (self.now(), times);
        match began < turn {
            true => {
                CallTimes { began: self.begins_at(place, turn), waited: waited + (turn - began) }
            }
            false => CallTimes { began: self.begins_at(place, began), waited },
        }
    }

    /// Calls that are done in place follow each other from now on.
    pub(super) fn begin_rows(&self) {
        self.row().open.set(true);
    }

    pub(super) fn end_rows(&self) {
        self.end_row();
        self.row().open.set(false);
    }

    /// The last call to begin, which has these times, waits. How long the calls of the row before
    /// it took is not known then and taken to be the usual.
    pub(super) fn interrupt_row(&self, last: CallTimes) {
        let row = self.row();
        let calls = row.calls.take();
        self.entry(row.place.get()).sheet().timed(row.usual.get(), calls);
        let began = if calls > 0 { row.began.get() } else { last.began };
        self.spend_since(began);
    }

    fn end_row(&self) {
        let row = self.row();
        let calls = row.calls.take();
        if calls == 0 {
            return;
        }
        let took = self.spend_since(row.began.get()).saturating_sub(row.began.get());
        let sheet = self.entry(row.place.get()).sheet();
        for (service, calls) in row.shares(calls, took) {
            sheet.timed(service, calls);
        }
    }
}

impl ServerCore {
    /// Counts the time from `began` until now as taken of this turn. What time it is.
    fn spend_since(&self, began: Duration) -> Duration {
        let now = self.look_at_clock();
        self.turn().spend(self.now(), began, now);
        now
    }

    /// Whether this turn has time for more of them. The clock is asked only where one turn, this or an
    /// earlier one, had none.
    pub(super) fn has_time(&self) -> bool {
        !self.turn().was_spent() || !self.is_spent(self.now())
    }

    /// Whether the turn that began at `now` has no time for more of them.
    #[inline]
    pub(super) fn is_spent(&self, now: Duration) -> bool {
        self.turn().is_spent(now)
    }
}
