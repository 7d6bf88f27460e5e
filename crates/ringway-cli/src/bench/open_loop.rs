//! The open loop of the rpc suite: calls begin when they are due, whatever the server does, and their
//! latency counts from then, so that a stall of the server, or of the client itself, delays every call
//! that was due meanwhile (no coordinated omission).
//!
//! One task says which calls are due, a tick at a time. A fixed set of lanes, tasks that outlive the run,
//! make them: each takes the next one that is due, over the connections in turn. So a call costs no task
//! and no memory of its own. One for which no lane is free waits for it, and that counts as its latency.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ringway_runtime::{spawn, yield_now};

use super::calls::Caller;
use super::dial::dial;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::RpcMode;
use crate::echo_service::LATER;
use crate::limits;
use crate::payload::{Composer, Series};

/// When calls are due.
#[derive(Clone, Copy)]
pub(super) struct OpenLoad {
    /// Calls a second, on all cores of the client.
    pub(super) rate: u64,
    /// The share of them that has a slow handler.
    pub(super) slow_percent: u32,
}

/// Calls over the connections of `part` in turn, each with `size` bytes.
pub(super) async fn run(
    part: Part,
    series: Series,
    size: usize,
    mode: RpcMode,
    due: OpenLoad,
) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connected = dial(&part, &score).await;
    part.wait_for_all(1).await;
    let composer = Rc::new(RefCell::new(Composer::new(series.pattern())));
    let caller = |(lane, client)| {
        let composer = Rc::clone(&composer);
        Caller { client, series, composer, size, lane }
    };
    let callers: Vec<_> = connected.into_iter().map(caller).collect();
    let rate = due.rate as f64 * part.share_of_all();
    let lane_count = limits::OPEN_LANES + lanes_for_slow(rate, due.slow_percent);
    let calls = Rc::new(Calls {
        callers,
        mode,
        slow_percent: due.slow_percent,
        timetable: Timetable { start: Instant::now(), interval_ns: 1e9 / rate },
        due: Cell::new(0),
        begun: Cell::new(0),
        idle: RefCell::new(Vec::with_capacity(lane_count)),
        closed: Cell::new(false),
        score: Rc::clone(&score),
    });
    if calls.callers.is_empty() {
        // That no connection could be made is counted already.
        return score.keep(&part, Vec::new()).await;
    }
    let mut tasks = vec![spawn(Rc::clone(&calls).pace())];
    tasks.extend((0..lane_count).map(|_| spawn(Rc::clone(&calls).run_lane())));
    let mut outcome = score.keep(&part, tasks).await?;
    outcome.errors.unanswered += calls.due.get() - calls.begun.get();
    Ok(outcome)
}

/// Twice the calls with slow handlers that are under way at any moment, so that they keep no lane from the
/// others.
fn lanes_for_slow(rate: f64, percent: u32) -> usize {
    (2.0 * rate * f64::from(percent) / 100.0 * LATER.as_secs_f64()) as usize
}

/// The calls of one core.
struct Calls {
    callers: Vec<Caller>,
    mode: RpcMode,
    slow_percent: u32,
    timetable: Timetable,
    /// How many have been due so far.
    due: Cell<u64>,
    /// How many of these a lane has taken.
    begun: Cell<u64>,
    /// Lanes that have nothing to do; the one that had most recently comes first.
    idle: RefCell<Vec<Waker>>,
    /// No further call will be due.
    closed: Cell<bool>,
    score: Rc<Score>,
}

impl Calls {
    /// Has calls begun until the run is over. It looks at the clock in every turn of the core, which
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

    /// Calls that have become due by `now` are up to the lanes.
    fn release(&self, now: Instant) {
        let due = self.timetable.due_by(now);
        let fresh = due - self.due.replace(due);
        let mut idle = self.idle.borrow_mut();
        let lanes = idle.len() - idle.len().min(usize::try_from(fresh).unwrap_or(usize::MAX));
        idle.drain(lanes..).for_each(Waker::wake);
    }

    async fn run_lane(self: Rc<Self>) {
        while let Some(sequence) = poll_fn(|cx| self.poll_next(cx)).await {
            self.call(sequence).await;
        }
    }

    /// The next call that is due; none when all have been taken.
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

    async fn call(&self, sequence: u64) {
        let caller = &self.callers[sequence as usize % self.callers.len()];
        let is_slow = is_slow(sequence, self.slow_percent);
        let message = caller.series.message(caller.lane, sequence, caller.size);
        let reply = match is_slow {
            true => caller.client.say_later(caller.compose(&message)).await,
            false => caller.call(self.mode, &message).await,
        };
        match reply {
            Err(status) => self.score.fail(&status),
            Ok(reply) if self.score.check(&message, &reply) => {
                self.score.add(1);
                if !is_slow {
                    self.score.time(self.timetable.due(sequence), Instant::now());
                }
            }
            Ok(_) => {}
        }
    }
}

/// Whether this is one of the share with a slow handler: so many of each hundred, a place earlier in each
/// next one, so that no connection has more of them than others.
fn is_slow(sequence: u64, percent: u32) -> bool {
    (sequence + sequence / 100) % 100 < u64::from(percent)
}

/// At which moments calls are due: evenly spread, the first at the start.
struct Timetable {
    start: Instant,
    /// No `Duration`: a whole number of nanoseconds would be a rate some per cent off.
    interval_ns: f64,
}

impl Timetable {
    /// How many calls are due by `now`.
    fn due_by(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start);
        (passed.as_nanos() as f64 / self.interval_ns) as u64 + 1
    }

    /// When call `sequence` is.
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

    #[test]
    fn slow_calls_are_as_many_as_asked_for_on_every_connection() {
        for (percent, connections) in [(1, 50), (10, 8), (50, 100)] {
            let mut slow = vec![0; connections];
            let calls = 100_000 * connections as u64;
            for sequence in (0..calls).filter(|&sequence| is_slow(sequence, percent)) {
                slow[sequence as usize % connections] += 1;
            }
            let expected = 1000 * percent;
            let is_near = |count: &u32| count.abs_diff(expected) <= expected / 20;
            assert!(slow.iter().all(is_near), "{percent} %: {slow:?}");
        }
    }
}
