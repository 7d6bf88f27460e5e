//! Latencies of one row: recorded per thread, merged, and read as percentiles with enough samples.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::limits;

/// Latencies from 1 ns to [`limits::LATENCY_NS_MAX`] at three significant digits, in constant memory
/// (about 220 KiB).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

/// The percentiles of a report in microseconds; each is `None` if fewer than
/// `SAMPLES_ABOVE_MIN` samples lie above it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Percentiles {
    /// The mean, whatever the number of samples.
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p90_us: Option<f64>,
    pub(crate) p95_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    /// The largest sample, whatever the number of samples.
    pub(crate) max_us: Option<f64>,
}

impl Latencies {
    /// Makes an empty recorder.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, limits::LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("constant bounds that the histogram accepts");
        Self { histogram }
    }

    /// Adds one latency; one outside the bounds counts as the nearest bound.
    #[inline]
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos.clamp(1, limits::LATENCY_NS_MAX));
    }

    /// Adds all samples of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all recorders have the same bounds");
    }

    /// Samples recorded.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in microseconds; `None` without samples.
    pub(crate) fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.histogram.mean() / 1000.0)
    }

    /// The percentiles that a report shows.
    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles {
            mean_us: self.mean_us(),
            p50_us: self.quantile_us(0.50),
            p90_us: self.quantile_us(0.90),
            p95_us: self.quantile_us(0.95),
            p99_us: self.quantile_us(0.99),
            p999_us: self.quantile_us(0.999),
            max_us: (self.count() > 0).then(|| self.histogram.max() as f64 / 1000.0),
        }
    }

    /// Returns pairs of a quantile and its latency in microseconds, for a curve that approaches 1 while enough
    /// samples lie above.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let halves = (0..=4).map(|tenth| f64::from(tenth) / 10.0);
        let tails = (0..=CURVE_STEPS).map(|step| 1.0 - 0.5 * 0.1_f64.powf(f64::from(step) / 8.0));
        halves.chain(tails).map_while(|at| Some((at, self.quantile_us(at)?))).collect()
    }

    /// Returns the percentiles as HdrHistogram's programs print and draw them, in microseconds. Unlike those of a
    /// report, they go on to the last sample.
    pub(crate) fn percentile_text(&self) -> String {
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let us = |nanos: f64| nanos / 1000.0;
        let mut count = 0;
        for at in self.histogram.iter_quantiles(TEXT_STEPS) {
            count += at.count_since_last_iteration();
            let (value, quantile) = (us(at.value_iterated_to() as f64), at.quantile_iterated_to());
            let inverse = 1.0 / (1.0 - quantile);
            _ = writeln!(text, "{value:12.3} {quantile:14.12} {count:10} {inverse:14.2}");
        }
        let Self { histogram } = self;
        let (mean, deviation) = (us(histogram.mean()), us(histogram.stdev()));
        _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
        let (max, total) = (us(histogram.max() as f64), histogram.len());
        _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {total:12}]");
        let buckets = histogram.buckets();
        _ = writeln!(text, "#[Buckets = {buckets:12}, SubBuckets     = {SUB_BUCKETS:12}]");
        text
    }

    fn quantile_us(&self, quantile: f64) -> Option<f64> {
        // A little is added because 1 - 0.9 is slightly less than 0.1 in binary.
        let above = ((1.0 - quantile) * self.count() as f64 + 1e-6) as u64;
        (above >= SAMPLES_ABOVE_MIN)
            .then(|| self.histogram.value_at_quantile(quantile) as f64 / 1000.0)
    }
}

/// Eight points for each further nine, up to the sixth.
const CURVE_STEPS: u32 = 45;
const SIGNIFICANT_DIGITS: u8 = 3;
/// What HdrHistogram has for that many digits.
const SUB_BUCKETS: u32 = 2048;
/// Lines for each halving of the rest above a percentile, as HdrHistogram's own programs have them.
const TEXT_STEPS: u32 = 5;
/// With fewer samples above it, a percentile reflects a few accidents.
const SAMPLES_ABOVE_MIN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(range: std::ops::RangeInclusive<u64>) -> Latencies {
        let mut latencies = Latencies::new();
        range.for_each(|us| latencies.record(Duration::from_micros(us)));
        latencies
    }

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() <= expected * 0.001)
    }

    #[test]
    fn percentiles_are_exact_to_three_digits() {
        let percentiles = micros(1..=10_000).percentiles();
        assert!(close(percentiles.p50_us, 5000.0), "{percentiles:?}");
        assert!(close(percentiles.p90_us, 9000.0), "{percentiles:?}");
        assert!(close(percentiles.p95_us, 9500.0), "{percentiles:?}");
        assert!(close(percentiles.mean_us, 5000.5), "{percentiles:?}");
        assert!(close(percentiles.p99_us, 9900.0), "{percentiles:?}");
        assert!(close(percentiles.p999_us, 9990.0), "{percentiles:?}");
        assert!(close(percentiles.max_us, 10_000.0), "{percentiles:?}");
    }

    #[test]
    fn percentiles_need_ten_samples_above_them() {
        assert!(micros(1..=1000).percentiles().p99_us.is_some());
        assert_eq!(micros(1..=999).percentiles().p99_us, None);
        assert!(micros(1..=20).percentiles().p50_us.is_some());
        assert_eq!(micros(1..=19).percentiles().p50_us, None);
        assert_eq!(Latencies::new().percentiles(), Percentiles::default());
    }

    #[test]
    fn a_curve_rises_and_ends_where_samples_are_few() {
        let curve = micros(1..=1000).curve();
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        let &(last, at) = curve.last().expect("a thousand samples");
        assert!((0.98..=0.99).contains(&last) && (at / last - 1000.0).abs() < 2.0, "{last} {at}");
        assert_eq!(Latencies::new().curve(), []);
    }

    #[test]
    fn the_text_is_that_of_hdr_histogram() {
        let text = micros(1..=100).percentile_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "       1.000 0.000000000000          1           1.00");
        let rows: Vec<Vec<f64>> = lines[2..]
            .iter()
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().expect(line)).collect())
            .collect();
        for pair in rows.windows(2) {
            assert!((0..4).all(|column| pair[0][column] <= pair[1][column]), "{text}");
        }
        let half = rows.iter().find(|row| row[1] == 0.5).expect("the median");
        assert_eq!((half[0].round(), half[2], half[3]), (50.0, 50.0, 2.0));
        let last = rows.last().expect("a hundred samples");
        assert_eq!(
            (last[0].round(), last[1], last[2], last[3]),
            (100.0, 1.0, 100.0, f64::INFINITY)
        );
        assert!(text.contains("#[Max     =      100."), "{text}");
        assert!(text.contains(", Total count    =          100]"), "{text}");
        assert!(text.ends_with(", SubBuckets     =         2048]\n"), "{text}");
        assert!(Latencies::new().percentile_text().contains("Total count    =            0]"));
    }

    #[test]
    fn merging_is_recording_in_one() {
        let mut merged = micros(1..=400);
        merged.merge(&micros(401..=1000));
        assert_eq!(merged.percentiles(), micros(1..=1000).percentiles());
        assert_eq!(merged.count(), 1000);
        assert!(close(merged.mean_us(), 500.5));
        assert_eq!(Latencies::new().mean_us(), None);
    }

    #[test]
    fn out_of_bounds_counts_as_the_nearest() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(3600));
        assert_eq!(latencies.count(), 2);
        assert!(close(latencies.percentiles().max_us, 60e6));
    }
}
