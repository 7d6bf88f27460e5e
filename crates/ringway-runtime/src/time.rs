//! Sleeping, timeouts and intervals on the core's timer wheel.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

mod deadline;

pub use deadline::Deadline;

use crate::core::{CoreNumber, Timer, look_at_current, try_with_current, with_current};
use crate::timer::wheel::TimerKey;

/// The current time of the core: when this turn's events were found; virtual in a simulation.
///
/// # Panics
/// Panics outside a runtime's thread.
#[inline]
pub fn now() -> Instant {
    look_at_current(|core| core.now())
}

/// The exact current time, behind which [`now`] falls during a turn; virtual in a simulation. It
/// costs a read of the system's clock.
///
/// # Panics
/// Panics outside a runtime's thread.
pub fn now_exact() -> Instant {
    look_at_current(|core| core.clock())
}

/// The time at which this thread's core was created.
///
/// # Panics
/// Panics outside a runtime's thread.
pub fn origin() -> Instant {
    look_at_current(|core| core.began())
}

/// The time from [`origin`] to [`now`]: a plain value, cheaper to compare and subtract than an
/// [`Instant`].
///
/// # Panics
/// Panics outside a runtime's thread.
#[inline]
pub fn uptime() -> Duration {
    look_at_current(|core| core.uptime())
}

/// Waits for `duration`, at most one millisecond longer plus the time that the core is busy;
/// `Duration::MAX` never ends.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep { until: Until::After(duration), timer: None }
}

/// Waits until `deadline`, an [`Instant`] or a [`Deadline`].
pub fn sleep_until(deadline: impl Into<Deadline>) -> Sleep {
    Sleep { until: Until::At(deadline.into()), timer: None }
}

/// The future of [`sleep`] and [`sleep_until`]; dropping it stops the timer. If it moves to another
/// core, it starts a timer there, and the former one fires without effect.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Sleep {
    until: Until,
    /// The core of the timer wheel with the key: on another core the key would name another timer.
    timer: Option<(CoreNumber, TimerKey)>,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    /// Counted from the first poll.
    After(Duration),
    At(Deadline),
}

impl Sleep {
    /// Moves the end of the wait.
    pub fn reset(&mut self, deadline: impl Into<Deadline>) {
        self.stop();
        self.until = Until::At(deadline.into());
    }

    fn stop(&mut self) {
        let Some((owner, timer)) = self.timer.take() else { return };
        try_with_current(|core| {
            if core.number() == owner {
                core.stop_timer(timer);
            }
        });
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with_current(|core| {
            let deadline = match self.until {
                Until::At(deadline) => deadline,
                Until::After(duration) => Deadline::after(core.clock(), duration),
            };
            self.until = Until::At(deadline);
            self.stop();
            let Some(instant) = deadline.instant() else {
                return Poll::Pending; // this never has to be woken
            };
            if core.clock() >= instant {
                return Poll::Ready(());
            }
            let timer = core.start_timer(instant, Timer::Wake(cx.waker().clone()));
            self.timer = Some((core.number(), timer));
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a future, but not longer than `limit`; `Duration::MAX` means no limit.
///
/// # Errors
/// Returns [`Elapsed`] when the limit comes first; the future is then dropped.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep(limit));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(cx).map(|()| Err(Elapsed { limit }))
    })
    .await
}

/// The error of a time limit that has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed {
    limit: Duration,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.limit)
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Ticks every `period`, first after one period. A late tick does not delay the next ones; missed
/// ticks are skipped.
///
/// # Panics
/// Panics if `period` is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period above zero");
    Interval { period, next: None }
}

/// A periodic timer, made by [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    next: Option<Deadline>,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due.
    pub async fn tick(&mut self) -> Instant {
        let due = self.next.unwrap_or_else(|| Deadline::after(now_exact(), self.period));
        self.next = Some(due);
        sleep_until(due).await;
        let due = due.instant().expect("a wait for never does not end");
        let missed = now().saturating_duration_since(due).as_nanos() / self.period.as_nanos();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        let late = self.period.saturating_mul(missed).saturating_add(self.period);
        self.next = Some(Deadline::after(due, late));
        due
    }
}
