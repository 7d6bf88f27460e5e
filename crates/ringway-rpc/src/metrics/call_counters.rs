//! The counters of one method on one core.

use std::time::Duration;

use super::counter::Counter;
use super::histogram::{Histogram, Latencies};
use super::side::Side;
use crate::call::status::Code;

const CODES: usize = 17;

/// The counters of one method on one core, written by that core and read by any thread.
#[derive(Default)]
pub(crate) struct CallCounters {
    started: Counter,
    by_code: [Counter; CODES],
    bytes_in: Counter,
    bytes_out: Counter,
    messages_in: Counter,
    messages_out: Counter,
    retries: Counter,
    hedges: Counter,
    over_budget: Counter,
    expired: Counter,
    shed: Counter,
    service: Histogram,
    total: Histogram,
}

/// The outcome and the times of a call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEnd {
    pub(crate) code: Code,
    /// Bytes of the reply messages that the server sent, or that the client received.
    pub(crate) bytes_out: usize,
    /// Time that the call waited before it was begun.
    pub(crate) queue: Duration,
    /// Time from the call's begin to its end.
    pub(crate) service: Duration,
}

impl CallCounters {
    /// Counts a call that begins, and the bytes of its request.
    #[inline]
    pub(crate) fn started(&self, bytes_in: usize) {
        self.started.add(1);
        self.bytes_in.add(bytes_in as u64);
    }

    #[inline]
    pub(crate) fn ended(&self, end: CallEnd) {
        self.answered(end.code, end.bytes_out);
        self.service.record(end.service);
        self.total.record(end.queue + end.service);
    }

    /// Counts a call that has ended and whose duration [`timed`](Self::timed) records later.
    #[inline]
    pub(crate) fn answered(&self, code: Code, bytes_out: usize) {
        self.by_code[code as usize].add(1);
        self.bytes_out.add(bytes_out as u64);
    }

    /// Records the duration of several calls that did not wait.
    pub(crate) fn timed(&self, service: Duration, calls: u32) {
        self.service.record_many(service, u64::from(calls));
        self.total.record_many(service, u64::from(calls));
    }

    /// Counts a message of a stream of requests.
    #[inline]
    pub(crate) fn request_message(&self, bytes: usize) {
        self.messages_in.add(1);
        self.bytes_in.add(bytes as u64);
    }

    /// Counts a message of a stream of replies.
    #[inline]
    pub(crate) fn reply_message(&self, bytes: usize) {
        self.messages_out.add(1);
        self.bytes_out.add(bytes as u64);
    }

    /// Counts an attempt that followed a failed one.
    pub(crate) fn retried(&self) {
        self.retries.add(1);
    }

    /// Counts an attempt that was made because an earlier one took long.
    pub(crate) fn hedged(&self) {
        self.hedges.add(1);
    }

    /// Counts an attempt that the retry budget did not allow.
    pub(crate) fn over_budget(&self) {
        self.over_budget.add(1);
    }

    /// Counts a call whose deadline passed before it could begin.
    pub(crate) fn expired(&self) {
        self.expired.add(1);
    }

    /// Counts a call that was refused because of a limit, without running it.
    pub(crate) fn shed(&self) {
        self.shed.add(1);
    }

    pub(super) fn add_to(&self, sum: &mut MethodSnapshot) {
        sum.started += self.started.read();
        for (sum, code) in sum.by_code.iter_mut().zip(&self.by_code) {
            *sum += code.read();
        }
        sum.bytes_in += self.bytes_in.read();
        sum.bytes_out += self.bytes_out.read();
        sum.messages_in += self.messages_in.read();
        sum.messages_out += self.messages_out.read();
        sum.retries += self.retries.read();
        sum.hedges += self.hedges.read();
        sum.over_budget += self.over_budget.read();
        sum.expired += self.expired.read();
        sum.shed += self.shed.read();
        self.service.add_to(&mut sum.service);
        self.total.add_to(&mut sum.total);
    }
}

/// The metrics of one method, summed over all cores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MethodSnapshot {
    /// The side that counted the calls.
    pub side: Side,
    /// The method's name, such as `market.v1.Market/Quote`.
    pub method: String,
    /// Calls that were begun.
    pub started: u64,
    by_code: [u64; CODES],
    /// Bytes of request messages.
    pub bytes_in: u64,
    /// Bytes of reply messages.
    pub bytes_out: u64,
    /// Messages in streams of requests.
    pub messages_in: u64,
    /// Messages in streams of replies.
    pub messages_out: u64,
    /// Attempts made because an earlier one had failed.
    pub retries: u64,
    /// Attempts made because an earlier one took long.
    pub hedges: u64,
    /// Attempts not made because the budget was used up.
    pub over_budget: u64,
    /// Calls whose deadline passed before they could begin.
    pub expired: u64,
    /// Calls refused because of a limit.
    pub shed: u64,
    /// Latencies from a call's begin to its end.
    pub service: Latencies,
    /// Latencies that include the time a call waited before it was begun.
    pub total: Latencies,
}

impl MethodSnapshot {
    pub(super) fn new(side: Side, method: &str) -> Self {
        Self {
            side,
            method: method.to_owned(),
            started: 0,
            by_code: [0; CODES],
            bytes_in: 0,
            bytes_out: 0,
            messages_in: 0,
            messages_out: 0,
            retries: 0,
            hedges: 0,
            over_budget: 0,
            expired: 0,
            shed: 0,
            service: Latencies::default(),
            total: Latencies::default(),
        }
    }

    /// The number of calls that ended with this code.
    pub fn with_code(&self, code: Code) -> u64 {
        self.by_code[code as usize]
    }

    /// The number of calls that ended.
    pub fn ended(&self) -> u64 {
        self.by_code.iter().sum()
    }

    /// The number of calls that ended with another code than OK.
    pub fn errors(&self) -> u64 {
        self.ended() - self.with_code(Code::Ok)
    }

    /// The number of calls begun and not ended. Counts of other cores may lag by an instant.
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.ended())
    }
}
