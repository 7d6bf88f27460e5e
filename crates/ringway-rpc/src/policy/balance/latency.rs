//! A latency average that follows peaks.

use std::time::Duration;

use crate::limits;

/// An exponentially weighted mean of latencies that jumps to a slower sample at once and decays
/// slowly, so that a stalling host is avoided from its first slow reply on. It also decays without
/// samples, so that an avoided host is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeakEwma {
    micros: f64,
    /// The time of the value in `micros`.
    stamp: Duration,
}

impl PeakEwma {
    /// Makes the average of a known host.
    #[cfg(test)]
    pub(crate) fn new(latency: Duration, now: Duration) -> Self {
        Self { micros: latency.as_secs_f64() * 1e6, stamp: now }
    }

    /// Makes the starting value of a new host: the mean of the other hosts.
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
        // A sample may be processed late; its earlier time must not age the value.
        (self.micros, self.stamp) = match sample > self.micros * kept {
            true => (sample, now),
            false => (self.micros * kept + sample * (1.0 - kept), now.max(self.stamp)),
        };
    }

    /// Notes that an unanswered call has already taken `latency`.
    pub(crate) fn observe_at_least(&mut self, latency: Duration, now: Duration) {
        if latency.as_secs_f64() * 1e6 > self.micros(now) {
            self.observe(latency, now);
        }
    }

    /// Returns the current value in microseconds; at least 1, so that calls in flight count.
    pub(crate) fn micros(&self, now: Duration) -> f64 {
        (self.micros * self.kept(now)).max(1.0)
    }

    /// Returns the weight of the past now.
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
    fn slow_reply_counts_at_once_and_decays() {
        let mut latency = PeakEwma::new(MS, Duration::ZERO);
        latency.observe(50 * MS, 10 * MS);
        assert_eq!(latency.micros(10 * MS), 50_000.0);
        latency.observe(MS, 20 * MS);
        let soon = latency.micros(20 * MS);
        assert!(soon > 49_000.0, "one fast reply hardly lowers it: {soon}");
        let later = latency.micros(20 * MS + limits::LATENCY_MEMORY);
        assert!((later / soon - (-1.0_f64).exp()).abs() < 1e-9);
    }

    #[test]
    fn unanswered_call_never_lowers_the_latency() {
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
    fn late_sample_does_not_age_the_value() {
        let mut latency = PeakEwma::new(10 * MS, 500 * MS);
        latency.observe(MS, 100 * MS);
        assert_eq!(latency.micros(500 * MS), 10_000.0);
        latency.observe(20 * MS, 400 * MS);
        assert!(latency.micros(500 * MS) < 20_000.0, "a peak decays from its own time");
    }

    #[test]
    fn latency_is_at_least_one_microsecond() {
        assert_eq!(PeakEwma::default().micros(Duration::ZERO), 1.0);
    }
}
