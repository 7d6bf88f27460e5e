//! The pauses between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use crate::limits;

/// Pauses that double from the first to the longest one, each shortened by a random part of up to a
/// half, so that the clients of one server do not retry in step.
///
/// ```
/// use std::time::Duration;
/// use ringway_net::Backoff;
///
/// let patient = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// # let _ = patient;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    delay_first: Duration,
    delay_max: Duration,
}

impl Backoff {
    /// Makes pauses from `delay_first` to `delay_max`; if `delay_max` is shorter, it becomes
    /// `delay_first`.
    pub fn new(delay_first: Duration, delay_max: Duration) -> Self {
        Self { delay_first, delay_max: delay_max.max(delay_first) }
    }

    /// Returns the pause after `failures` earlier failures in a row; `random` is uniform over all
    /// values.
    fn delay(&self, failures: u32, random: u64) -> Duration {
        let doubled = 2_u32.checked_pow(failures).and_then(|by| self.delay_first.checked_mul(by));
        let full = doubled.unwrap_or(self.delay_max).min(self.delay_max);
        let shortened_by = (full / 2).mul_f64(random as f64 / u64::MAX as f64);
        full - shortened_by
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(limits::BACKOFF_DELAY_FIRST, limits::BACKOFF_DELAY_MAX)
    }
}

/// A series of attempts up to a success.
///
/// It keeps the time of the next attempt, so that a caller who drops the waiting future and asks
/// again does not get one earlier.
#[derive(Clone, Debug)]
pub(super) struct Series {
    backoff: Backoff,
    failures: u32,
    seed: RandomState,
    /// The start and the length of the current pause.
    pause: Option<(Instant, Duration)>,
}

impl Series {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0, seed: RandomState::new(), pause: None }
    }

    /// Returns the number of failures since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns how long the next attempt must still wait.
    pub(super) fn pause_left(&self, now: Instant) -> Duration {
        let left = |(since, pause): (Instant, Duration)| {
            pause.saturating_sub(now.saturating_duration_since(since))
        };
        self.pause.map_or(Duration::ZERO, left)
    }

    /// Notes that an attempt begins. If it is dropped it is not a failure, but the next attempt
    /// pauses after it.
    pub(super) fn begun(&mut self, now: Instant) {
        self.pause = Some((now, self.delay()));
    }

    /// Notes a connection. It is a success only once it has lived for the stable period.
    pub(super) fn connected(&mut self) {
        self.pause = None;
    }

    /// Notes a failure: the next attempt waits.
    pub(super) fn failed(&mut self, now: Instant) {
        self.pause = Some((now, self.delay()));
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::new(self.backoff);
    }

    /// Resets the failures but keeps the pause: asking again at once gains no time.
    pub(super) fn gave_up(&mut self) {
        *self = Self { pause: self.pause, ..Self::new(self.backoff) };
    }

    fn delay(&self) -> Duration {
        self.backoff.delay(self.failures, self.seed.hash_one(self.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(100 * MS, 1_000 * MS);
        let waits: Vec<_> = (0..6).map(|failures| backoff.delay(failures, 0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(backoff.delay(u32::MAX, 0), 1_000 * MS);
    }

    #[test]
    fn jitter_shortens_a_pause_by_up_to_a_half() {
        let backoff = Backoff::new(100 * MS, 1_000 * MS);
        assert_eq!(backoff.delay(0, u64::MAX), 50 * MS);
        let middle = backoff.delay(0, u64::MAX / 2);
        assert!(middle > 74 * MS && middle < 76 * MS, "{middle:?}");
    }

    #[test]
    fn two_series_have_different_jitter() {
        let now = Instant::now();
        let waits = |mut series: Series| -> Vec<_> {
            let mut wait = || {
                series.failed(now);
                series.pause_left(now)
            };
            (0..8).map(|_| wait()).collect()
        };
        let backoff = Backoff::default();
        assert_ne!(waits(Series::new(backoff)), waits(Series::new(backoff)));
    }

    #[test]
    fn success_resets_the_series() {
        let mut series = Series::new(Backoff::new(100 * MS, 1_000 * MS));
        let now = Instant::now();
        for _ in 0..5 {
            series.failed(now);
        }
        assert_eq!(series.failures(), 5);
        series.succeeded();
        assert_eq!((series.failures(), series.pause_left(now)), (0, Duration::ZERO));
        series.failed(now);
        assert!(series.pause_left(now) <= 100 * MS);
    }

    #[test]
    fn pause_elapses_even_if_no_one_waits_for_it() {
        let mut series = Series::new(Backoff::new(100 * MS, 1_000 * MS));
        let began = Instant::now();
        series.begun(began);
        assert_eq!(series.failures(), 0, "an attempt that was given up is no failure");
        let pause = series.pause_left(began);
        assert!(pause >= 50 * MS && pause <= 100 * MS, "{pause:?}");
        assert_eq!(series.pause_left(began + 20 * MS), pause - 20 * MS);
        assert_eq!(series.pause_left(began + 100 * MS), Duration::ZERO);
        series.failed(began);
        series.connected();
        assert_eq!((series.failures(), series.pause_left(began)), (1, Duration::ZERO));
    }

    #[test]
    fn extreme_delays_do_not_overflow() {
        let endless = Backoff::new(Duration::MAX, Duration::ZERO);
        assert_eq!(endless.delay(31, 0), Duration::MAX);
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).delay(3, 7), Duration::ZERO);
    }
}
