//! The open loop: calls begin when they are due, whatever the server does. Their latency
//! counts from that time, so a stall of the server, or of the client itself, delays every call
//! that was due meanwhile. This avoids coordinated omission.
//!
//! One task finds out which calls are due, a tick at a time. A fixed set of lanes, tasks that live as long as the
//! run, makes them: each lane takes the next due call, over the connections in turn. So a call costs no task
//! and no memory of its own. A call without a free lane waits for one, and this wait is part of its latency.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime::{spawn, yield_now};

use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::limits;

/// Makes the calls of an open loop.
pub(super) trait Work: 'static {
    /// Makes the call `sequence`, which was due at `due`, and counts its outcome.
    fn call(&self, sequence: u64, due: Instant, score: &Score) -> impl Future<Output = ()>;

    /// Returns the number of lanes for this rate, so many that no call keeps others waiting.
    fn lanes_aside(&self, _rate: f64) -> usize {
        0
    }
}

/// Makes `rate` calls per second with `work` on all cores of the client, and this core's share here. `work` is
/// `None` if no connection could be made, which is counted already.
pub(super) async fn run<W: Work>(
    part: &Part,
    rate: u64,
    work: Option<W>,
    score: &Rc<Score>,
) -> io::Result<CoreOutcome> {
    let Some(work) = work else {
        return score.keep(part, Vec::new()).await;
    };
    let rate = rate as f64 * part.share_of_all();
    let lane_count = limits::OPEN_LANES + work.lanes_aside(rate);
    let calls = Rc::new(Calls {
        work,
        timetable: Timetable { start: Instant::now(), interval_ns: 1e9 / rate },
        due: Cell::new(0),
        begun: Cell::new(0),
        idle: RefCell::new(Vec::with_capacity(lane_count)),
        closed: Cell::new(false),
        score: Rc::clone(score),
    });
    let mut tasks = vec![spawn(Rc::clone(&calls).pace())];
    tasks.extend((0..lane_count).map(|_| spawn(Rc::clone(&calls).run_lane())));
    let mut outcome = score.keep(part, tasks).await?;
    outcome.errors.unanswered += calls.due.get() - calls.begun.get();
    Ok(outcome)
}

/// The calls of one core.
struct Calls<W> {
    work: W,
    timetable: Timetable,
    /// Number of calls due so far.
    due: Cell<u64>,
    /// Number of due calls that a lane has taken.
    begun: Cell<u64>,
    /// Idle lanes; the one that was busy most recently is used first.
    idle: RefCell<Vec<Waker>>,
    /// Whether no further call will be due.
    closed: Cell<bool>,
    score: Rc<Score>,
}

impl<W: Work> Calls<W> {
    /// Releases due calls until the run is over. It reads the clock in every turn of the core, which
    /// therefore never sleeps: a timer would be too coarse.
    async fn pace(self: Rc<Self>) {
        let mut tick = Instant::now();
        while !self.score.is_over() {
            let now = Instant::now();
            if now >= tick {
                self.release(now);
                tick = now + limits::OPEN_TICK;
            }
            yield_now().await;
        }
        self.release(Instant::now());
        self.closed.set(true);
        self.idle.take().into_iter().for_each(Waker::wake);
    }

    /// Releases the calls due by `now` to the lanes.
    fn release(&self, now: Instant) {
        let due = self.timetable.due_by(now);
        let fresh = due - self.due.replace(due);
        let mut idle = self.idle.borrow_mut();
        let lanes = idle.len() - idle.len().min(usize::try_from(fresh).unwrap_or(usize::MAX));
        idle.drain(lanes..).for_each(Waker::wake);
    }

    async fn run_lane(self: Rc<Self>) {
        while let Some(sequence) = poll_fn(|cx| self.poll_next(cx)).await {
            self.work.call(sequence, self.timetable.due(sequence), &self.score).await;
        }
    }

    /// Takes the next due call; `None` if all are taken.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let sequence = self.begun.get();
        if sequence < self.due.get() {
            self.begun.set(sequence + 1);
            self.score.begin(1);
            return Poll::Ready(Some(sequence));
        }
        if self.closed.get() {
            return Poll::Ready(None);
        }
        self.idle.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}

/// The schedule of calls: evenly spread, the first one at the start.
struct Timetable {
    start: Instant,
    /// Not a `Duration`: rounding to whole nanoseconds would change the rate by some per cent.
    interval_ns: f64,
}

impl Timetable {
    /// Returns the number of calls due by `now`.
    fn due_by(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start);
        (passed.as_nanos() as f64 / self.interval_ns) as u64 + 1
    }

    /// Returns the time at which call `sequence` is due.
    fn due(&self, sequence: u64) -> Instant {
        self.start + Duration::from_nanos((sequence as f64 * self.interval_ns) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_due_at_the_rate_that_was_asked_for() {
        for rate in [0.5, 3.0, 500.0, 300_000.0, 75e6] {
            let start = Instant::now();
            let timetable = Timetable { start, interval_ns: 1e9 / rate };
            assert_eq!(timetable.due_by(start), 1);
            let expected = (rate * 1000.0) as u64;
            let found = timetable.due_by(start + Duration::from_secs(1000));
            assert!(found.abs_diff(expected) <= 1, "{rate}: {found}");
            for sequence in [0, 1, 7, 1_000_003] {
                let due = timetable.due(sequence);
                let by_then = timetable.due_by(due + Duration::from_nanos(1));
                assert_eq!(by_then, sequence + 1, "{rate}: {sequence}");
            }
        }
    }
}
