//! Counts and latencies of the operations of one core of the client.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::foreign::printable;
use ringway_rpc::{Code, Status};
use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, sleep, timeout};

use super::connect;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::phase::Phase;
use super::server::Usage;
use super::timeline;
use crate::histogram::Latencies;
use crate::limits;
use crate::payload::Due;
use crate::report::{Cost, Errors};

/// Counts and latencies of a core, with the phases of a run.
pub(super) struct Score {
    phase: Cell<Phase>,
    /// Start of the measured interval; operations begun before it are not timed.
    began: Cell<Instant>,
    /// Operations within the measured interval.
    counted: Cell<u64>,
    /// After how many of them the interval ends before its time, and when that was.
    most: Cell<u64>,
    full_at: Cell<Option<Instant>>,
    full: Notify,
    /// Operations begun within it, where known.
    begun: Cell<u64>,
    /// Operations that ended after it and began before.
    late: Cell<u64>,
    verified: Cell<u64>,
    latencies: RefCell<Latencies>,
    errors: RefCell<Errors>,
    complaint: RefCell<Option<String>>,
    usage: fn() -> Usage,
}

impl Score {
    /// For operations that run on this core.
    pub(super) fn new() -> Rc<Self> {
        Self::with_usage(Usage::of_this_core)
    }

    /// For operations that cost what `usage` tells.
    pub(super) fn with_usage(usage: fn() -> Usage) -> Rc<Self> {
        Rc::new(Self {
            usage,
            phase: Cell::new(Phase::WarmUp),
            began: Cell::new(Instant::now()),
            counted: Cell::new(0),
            most: Cell::new(u64::MAX),
            full_at: Cell::new(None),
            full: Notify::new(),
            begun: Cell::new(0),
            late: Cell::new(0),
            verified: Cell::new(0),
            latencies: RefCell::new(Latencies::new()),
            errors: RefCell::new(Errors::default()),
            complaint: RefCell::new(None),
        })
    }

    /// Whether no further operation should begin.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.phase.get() == Phase::Drain || self.is_full()
    }

    /// Ends the measured interval after so many operations.
    pub(super) fn set_most(&self, operations: u64) {
        self.most.set(operations);
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.full_at.get().is_some()
    }

    /// Counts `count` begun operations, independent of replies to others.
    #[inline]
    pub(super) fn begin(&self, operations: u64) {
        if self.phase.get() == Phase::Measured {
            self.begun.set(self.begun.get() + operations);
        }
    }

    /// Counts `count` successful operations.
    #[inline]
    pub(super) fn add(&self, operations: u64) {
        match self.phase.get() {
            Phase::WarmUp => {}
            Phase::Measured if !self.is_full() => {
                self.counted.set(self.counted.get() + operations);
                if self.counted.get() >= self.most.get() {
                    self.full_at.set(Some(Instant::now()));
                    self.full.notify_one();
                }
            }
            Phase::Measured | Phase::Drain => self.late.set(self.late.get() + operations),
        }
    }

    /// Records an operation that was begun, or due, at `begun` and ends at `now`.
    #[inline]
    pub(super) fn time(&self, begun: Instant, now: Instant) {
        if self.is_timed(begun) {
            self.latencies.borrow_mut().record(now.saturating_duration_since(begun));
        }
    }

    /// Whether an operation that was begun, or due, at `begun` and ends now belongs to the measured interval. Every
    /// such operation is recorded, or the slowest would be missing.
    #[inline]
    pub(super) fn is_timed(&self, begun: Instant) -> bool {
        self.phase.get() != Phase::WarmUp && begun >= self.began.get()
    }

    /// Compares a payload with the expected message; a wrong one is an error.
    #[inline]
    pub(super) fn check(&self, due: &impl Due, found: &[u8]) -> bool {
        self.verified.set(self.verified.get() + 1);
        let is_right = due.is(found);
        if !is_right {
            self.mismatch(due, found);
        }
        is_right
    }

    #[cold]
    fn mismatch(&self, due: &impl Due, found: &[u8]) {
        self.errors.borrow_mut().mismatched += 1;
        let (lane, sequence) = (due.name().lane, due.name().sequence);
        self.complain(format!(
            "payload {sequence} of lane {lane}, {} bytes where {} were due, is wrong from byte {}",
            found.len(),
            due.len(),
            due.difference(found)
        ));
    }

    /// Counts a failed operation.
    #[cold]
    pub(super) fn fail(&self, status: &Status) {
        let mut errors = self.errors.borrow_mut();
        match status.code() {
            Code::Unavailable => errors.reset += 1,
            Code::DeadlineExceeded => errors.timed_out += 1,
            _ => errors.other += 1,
        }
        self.complain(printable(&status.to_string()).into_owned());
    }

    /// Counts a failed operation of a method whose statuses mean something to its user.
    #[cold]
    pub(super) fn fail_by_status(&self, status: &Status) {
        let name = status.code().name();
        *self.errors.borrow_mut().by_status.entry(name).or_default() += 1;
        self.fail(status);
    }

    /// Counts a failed operation of a client that knows no statuses.
    #[cold]
    pub(super) fn failed(&self, is_reset: bool, is_timed_out: bool, why: &str) {
        let mut errors = self.errors.borrow_mut();
        match (is_reset, is_timed_out) {
            (true, _) => errors.reset += 1,
            (_, true) => errors.timed_out += 1,
            _ => errors.other += 1,
        }
        self.complain(printable(why).into_owned());
    }

    /// Counts a connection that failed while it was used.
    #[cold]
    pub(super) fn broken(&self, error: &io::Error) {
        connect::count(&mut self.errors.borrow_mut(), error);
        self.complain(printable(&error.to_string()).into_owned());
    }

    /// Counts the outcome of a comparison of a reply.
    pub(super) fn compared(&self, is_right: bool, complaint: impl FnOnce() -> String) {
        self.verified.set(self.verified.get() + 1);
        if !is_right {
            self.errors.borrow_mut().mismatched += 1;
            self.complain(complaint());
        }
    }

    /// Counts an operation that was begun at `begun` and answered at `ended`. Only a right answer is a success.
    pub(super) fn settle(
        &self,
        is_right: bool,
        begun: Instant,
        ended: Instant,
        complaint: impl FnOnce() -> String,
    ) {
        self.compared(is_right, complaint);
        if is_right {
            self.add(1);
            self.time(begun, ended);
        }
    }

    /// Counts a connection that was not made.
    #[cold]
    pub(super) fn unconnected(&self, status: &Status) {
        let mut errors = self.errors.borrow_mut();
        match status.code() {
            Code::Unavailable => errors.refused += 1,
            Code::DeadlineExceeded => errors.timed_out += 1,
            _ => errors.other += 1,
        }
        let why = status.to_string();
        self.complain(format!("a connection was not made: {}", printable(&why)));
    }

    /// Counts abandoned operations.
    pub(super) fn give_up(&self, operations: u64) {
        self.errors.borrow_mut().unanswered += operations;
    }

    fn complain(&self, text: String) {
        self.complaint.borrow_mut().get_or_insert(text);
    }

    /// Times a run whose tasks have started: the warm-up, the measured interval, and then until `lanes` have
    /// ended.
    pub(super) async fn keep(
        &self,
        part: &Part,
        lanes: Vec<JoinHandle<()>>,
    ) -> io::Result<CoreOutcome> {
        sleep(part.length.warmup).await;
        part.read_costs_before()?;
        let before = (self.usage)();
        let began = Instant::now();
        self.began.set(began);
        self.phase.set(Phase::Measured);
        let done = || self.counted.get();
        let length = part.length.measured;
        let timeline = timeline::watch(began, length, done, Some(&self.full)).await;
        self.phase.set(Phase::Drain);
        let ended = self.full_at.get().unwrap_or_else(Instant::now);
        let elapsed = ended.duration_since(began);
        self.drain(lanes).await;
        let after = (self.usage)();
        part.read_costs_after()?;
        let charged = self.counted.get() + self.late.get();
        Ok(CoreOutcome {
            operations: self.counted.get(),
            begun: self.begun.get(),
            charged,
            elapsed,
            timeline,
            latencies: Some(self.latencies.borrow().clone()),
            errors: self.errors.take(),
            verified: self.verified.get(),
            client: after.since(before, charged),
            complaint: self.complaint.take(),
            clock: None,
        })
    }

    /// Returns the outcome of `operations` that were not counted here, with the errors that were.
    pub(super) fn outcome_of(
        &self,
        operations: u64,
        elapsed: Duration,
        client: Cost,
    ) -> CoreOutcome {
        CoreOutcome {
            operations,
            begun: 0,
            charged: operations,
            elapsed,
            timeline: Vec::new(),
            latencies: None,
            errors: self.errors.take(),
            verified: self.verified.get(),
            client,
            complaint: self.complaint.take(),
            clock: None,
        }
    }

    async fn drain(&self, lanes: Vec<JoinHandle<()>>) {
        let deadline = Instant::now() + limits::DRAIN_MAX;
        for lane in lanes {
            let left = deadline.saturating_duration_since(Instant::now());
            if timeout(left, lane).await.is_err() {
                self.give_up(1);
            }
        }
    }
}
