//! Counters, latencies and spans of calls.
//!
//! Reading the clock costs a good part of what a small call costs. So calls of one method that are served
//! in place one after another are timed in batches: the clock is read at the end of a batch, and each of
//! its calls gets an equal share of the time. Two rules keep that honest. When a batch took longer than
//! short calls do, the excess counts for one call, and the following calls are timed one by one until
//! they are short again. And a batch never spans two methods, a handler that waits, or the end of what
//! was received at once.

use std::time::Duration;

use ringway_runtime::{contain, drop_contained};
use tracing::Span;
use tracing::level_filters::LevelFilter;

use super::call_times::{Answered, CallTimes};
use super::core::ServerCore;
use super::log::SUBSCRIBER;
use super::method_entry::MethodEntry;
use super::slow_calls::Spent;
use crate::call::context::Context;
use crate::call::status::Code;
use crate::metrics::CallEnd;

/// Opens the call's span in its caller's trace. When no subscriber listens, this costs one flag check and
/// returns a disabled span.
#[inline]
pub(super) fn span_of(context: &Context) -> Span {
    // With tracing's `log` feature, which any crate of the program may enable, the macro would compute
    // the fields even when no subscriber listens.
    if LevelFilter::current() < LevelFilter::INFO {
        return Span::none();
    }
    let span = contain(SUBSCRIBER, || {
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

/// Closes a call's span and records the call's status code in it.
#[inline]
pub(super) fn close_span(span: Span, code: Code) {
    if !span.is_disabled() {
        contain(SUBSCRIBER, || span.record("code", tracing::field::display(code)));
        drop_contained(SUBSCRIBER, span);
    }
}

impl ServerCore {
    /// Counts a call that has ended, and returns its permit unless offloaded work holds it.
    pub(super) fn end(&self, entry: &MethodEntry, times: CallTimes, answered: Answered) {
        self.end_at(self.look_at_clock(), entry, times, answered);
    }

    /// The same for a handler that has waited, and spent its time so while somebody looked.
    pub(super) fn end_waiting(
        &self,
        entry: &MethodEntry,
        times: CallTimes,
        answered: Answered,
        spent: Option<Spent>,
    ) {
        let now = self.look_at_clock();
        self.slow_calls().record(entry.method(), times, answered.code, now, spent);
        self.count_end(now, entry, times, answered);
    }

    fn end_at(&self, now: Duration, entry: &MethodEntry, times: CallTimes, answered: Answered) {
        self.slow_calls().record(entry.method(), times, answered.code, now, None);
        self.count_end(now, entry, times, answered);
    }

    fn count_end(&self, now: Duration, entry: &MethodEntry, times: CallTimes, answered: Answered) {
        let service = now.saturating_sub(times.began);
        entry.counters().ended(CallEnd {
            code: answered.code,
            bytes_out: answered.bytes,
            queue: times.waited,
            service,
        });
        let has_news = entry.record_end(answered.code, service, now);
        entry.call_ended();
        if has_news {
            self.publish_lease(now);
        }
    }

    /// Counts a call that ended without waiting, as [`end`](Self::end) does, but may time it with others.
    #[inline(always)]
    pub(super) fn end_in_place(&self, method_index: usize, times: CallTimes, answered: Answered) {
        let (entry, batch) = (self.entry(method_index), self.batch());
        let is_shown = answered.code != Code::Ok && self.slow_calls().is_watched();
        if !batch.open.get() || entry.is_adaptive() || !times.waited.is_zero() || is_shown {
            return self.end_at(self.spend_since(times.began), entry, times, answered);
        }
        entry.counters().answered(answered.code, answered.bytes);
        entry.call_ended();
        let calls = batch.calls.get();
        if calls == 0 {
            batch.method_index.set(method_index);
            batch.began.set(times.began);
        }
        batch.calls.set(calls + 1);
        if calls + 1 >= batch.size_max.get() {
            self.end_batch();
        }
    }

    /// The time at which a call that is started now begins to be served: calls that were received
    /// together follow each other.
    #[inline]
    pub(super) fn begins_at(&self, method_index: usize, admitted: Duration) -> Duration {
        if self.batch().calls.get() > 0 && self.batch().method_index.get() != method_index {
            self.end_batch();
        }
        admitted.max(self.last_look())
    }

    /// Updates the times of a deferred call whose handler starts now. If its turn is over, the time since
    /// counts as waiting.
    #[inline]
    pub(super) fn put_off(&self, method_index: usize, times: CallTimes) -> CallTimes {
        let (turn, CallTimes { began, waited }) = (self.now(), times);
        match began < turn {
            true => CallTimes {
                began: self.begins_at(method_index, turn),
                waited: waited + (turn - began),
            },
            false => CallTimes { began: self.begins_at(method_index, began), waited },
        }
    }

    /// Lets calls that end in place be timed together from now on.
    pub(super) fn start_batching(&self) {
        self.batch().open.set(true);
    }

    pub(super) fn stop_batching(&self) {
        self.end_batch();
        self.batch().open.set(false);
    }

    /// Ends the batch because the call that began last, with the times `last`, has to wait. The duration
    /// of the calls before it is unknown, so they count with the usual one.
    pub(super) fn interrupt_batch(&self, last: CallTimes) {
        let batch = self.batch();
        let calls = batch.calls.take();
        self.entry(batch.method_index.get()).counters().timed(batch.usual.get(), calls);
        let began = if calls > 0 { batch.began.get() } else { last.began };
        self.spend_since(began);
    }

    fn end_batch(&self) {
        let batch = self.batch();
        let calls = batch.calls.take();
        if calls == 0 {
            return;
        }
        let now = self.spend_since(batch.began.get());
        let took = now.saturating_sub(batch.began.get());
        let entry = self.entry(batch.method_index.get());
        for (service, calls) in batch.shares(calls, took) {
            entry.counters().timed(service, calls);
            if calls > 0 {
                let times = CallTimes { began: now - service, waited: Duration::ZERO };
                self.slow_calls().record(entry.method(), times, Code::Ok, now, None);
            }
        }
    }
}

impl ServerCore {
    /// Counts the time from `began` until now as used of this turn, and returns the current time.
    fn spend_since(&self, began: Duration) -> Duration {
        let now = self.look_at_clock();
        self.turn().spend(self.now(), began, now);
        now
    }

    /// Whether this turn has time for more calls. It reads the clock only if this turn or an earlier one
    /// ran out of time.
    pub(super) fn has_time(&self) -> bool {
        !self.turn().was_spent() || !self.is_spent(self.now())
    }

    /// Whether the turn that began at `now` has no time for more calls.
    #[inline]
    pub(super) fn is_spent(&self, now: Duration) -> bool {
        self.turn().is_spent(now)
    }
}
