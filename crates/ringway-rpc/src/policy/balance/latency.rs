//! A latency that remembers peaks.

use std::time::Duration;

use crate::limits;

/// An exponentially weighted mean of latencies that jumps up to a slower one at once and comes
/// down slowly, so that a host that stalls is avoided from its first slow reply on. It also fades
/// while nothing is measured: a host that was avoided is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeakEwma {
    micros: f64,
    /// When `micros` was right.
    stamp: Duration,
}

impl PeakEwma {
    /// A host that is known already.
    #[cfg(test)]
    pub(crate) fn new(latency: Duration, now: Duration) -> Self {
        Self { micros: latency.as_secs_f64() * 1e6, stamp: now }
    }

    /// What is to be believed of a host that joins these.
    pub(crate) fn mean<'a>(others: impl Iterator<Item = &'a Self>, now: Duration) -> Self {
        let (mut count, mut micros) = (0.0, 0.0);
        for other in others.filter(|other| other.micros > 0.0) {
            (count, micros) = (count + 1.0, micros + other.micros(now));
        }
        match count > 0.0 {
            true => Self { micros: micros / count, stamp: now },
            false => Self::default(),
        }
    }

    pub(crate) fn observe(&mut self, latency: Duration, now: Duration) {
        let sample = latency.as_secs_f64() * 1e6;
        let kept = self.kept(now);
        // An answer that was looked at late came before others, which are not older for that.
        (self.micros, self.stamp) = match sample > self.micros * kept {
            true => (sample, now),
            false => (self.micros * kept + sample * (1.0 - kept), now.max(self.stamp)),
        };
    }

    /// A call has taken so long, and has no answer.
    pub(crate) fn observe_at_least(&mut self, latency: Duration, now: Duration) {
        if latency.as_secs_f64() * 1e6 > self.micros(now) {
            self.observe(latency, now);
        }
    }

    /// Microseconds, as they are to be believed now; never 0, so that calls in flight count.
    pub(crate) fn micros(&self, now: Duration) -> f64 {
        (self.micros * self.kept(now)).max(1.0)
    }

    /// How much of the past still counts.
    fn kept(&self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.stamp).as_secs_f64();
        (-passed / limits::LATENCY_MEMORY.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slow_reply_counts_at_once_and_fades() {
        let mut latency = PeakEwma::new(MS, Duration::ZERO);
        latency.observe(50 * MS, 10 * MS);
        assert_eq!(latency.micros(10 * MS), 50_000.0);
        latency.observe(MS, 20 * MS);
        let soon = latency.micros(20 * MS);
        assert!(soon > 49_000.0, "one good reply does not forgive: {soon}");
        let later = latency.micros(20 * MS + limits::LATENCY_MEMORY);
        assert!((later / soon - (-1.0_f64).exp()).abs() < 1e-9);
    }

    #[test]
    fn a_call_without_an_answer_makes_no_host_look_faster() {
        let mut latency = PeakEwma::new(10 * MS, Duration::ZERO);
        latency.observe_at_least(5 * MS, MS);
        latency.observe_at_least(Duration::ZERO, 2 * MS);
        assert_eq!(latency.micros(Duration::ZERO), 10_000.0);
        latency.observe_at_least(20 * MS, 2 * MS);
        assert_eq!(latency.micros(2 * MS), 20_000.0);
    }

    #[test]
    fn time_that_goes_back_changes_nothing() {
        let latency = PeakEwma::new(MS, 100 * MS);
        assert_eq!(latency.micros(Duration::ZERO), 1_000.0);
    }

    #[test]
    fn an_answer_that_is_told_late_makes_nothing_older() {
        let mut latency = PeakEwma::new(10 * MS, 500 * MS);
        latency.observe(MS, 100 * MS);
        assert_eq!(latency.micros(500 * MS), 10_000.0);
        latency.observe(20 * MS, 400 * MS);
        assert!(latency.micros(500 * MS) < 20_000.0, "a peak fades from when it came");
    }

    #[test]
    fn it_is_never_nothing() {
        assert_eq!(PeakEwma::default().micros(Duration::ZERO), 1.0);
    }
}
