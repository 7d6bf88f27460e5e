//! Latencies in logarithmic buckets.

use std::time::Duration;

use super::counter::Counter;

/// Buckets for each doubling of latency: values are exact to a sixteenth.
const STEPS: u32 = 16;
/// Latencies below 2^SHIFT ns, about a microsecond, have linear buckets.
const SHIFT: u32 = 10;
/// Doublings with buckets: up to about 70 minutes.
const DOUBLINGS: u32 = 32;
const BUCKETS: usize = (STEPS * (DOUBLINGS + 1)) as usize;

/// A histogram written by one core and read by any thread. Recording a value costs a few instructions and
/// no memory.
pub(super) struct Histogram {
    buckets: Box<[Counter; BUCKETS]>,
    sum_ns: Counter,
}

impl Histogram {
    #[inline]
    pub(super) fn record(&self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Records the same latency `count` times.
    #[inline]
    pub(super) fn record_many(&self, latency: Duration, count: u64) {
        let nanos = latency.as_nanos() as u64;
        self.buckets[bucket(nanos)].add(count);
        self.sum_ns.add(nanos * count);
    }

    pub(super) fn add_to(&self, sum: &mut Latencies) {
        for (sum, bucket) in sum.buckets.iter_mut().zip(self.buckets.iter()) {
            *sum += bucket.read();
        }
        sum.sum_ns += u128::from(self.sum_ns.read());
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Box::new(std::array::from_fn(|_| Counter::default())),
            sum_ns: Counter::default(),
        }
    }
}

/// The bucket of a latency: `STEPS` linear ones at first, then `STEPS` for each doubling.
#[inline]
fn bucket(nanos: u64) -> usize {
    let units = nanos >> (SHIFT - STEPS.ilog2());
    if units < u64::from(STEPS) {
        return units as usize;
    }
    let doubling = units.ilog2() - STEPS.ilog2();
    let step = (units >> doubling) as u32 - STEPS;
    ((STEPS * (doubling + 1) + step) as usize).min(BUCKETS - 1)
}

/// The upper bound of a bucket, in nanoseconds.
fn upper_edge(bucket: usize) -> u64 {
    let (row, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    let units = match row {
        0 => step + 1,
        _ => (u64::from(STEPS) + step + 1) << (row - 1),
    };
    units << (SHIFT - STEPS.ilog2())
}

/// A histogram of latencies at one moment, exact to a sixteenth.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Vec<u64>,
    sum_ns: u128,
}

impl Latencies {
    /// The number of recorded values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all recorded values.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    /// The latency that a `share` of the calls did not exceed (0.99: the 99th percentile), rounded up by
    /// at most a sixteenth; `None` if nothing was recorded.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos(upper_edge(bucket)))
    }

    /// The buckets that hold values: their upper bounds in nanoseconds, and how many.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let buckets = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        buckets.map(|(bucket, count)| (upper_edge(bucket), *count))
    }

    /// The number of values that did not exceed `bound`, exact to a sixteenth.
    pub fn within(&self, bound: Duration) -> u64 {
        let bound = bound.as_nanos();
        let within = |&(bucket, _): &(usize, &u64)| u128::from(upper_edge(bucket)) <= bound;
        self.buckets.iter().enumerate().take_while(within).map(|(_, count)| count).sum()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(nanos: impl IntoIterator<Item = u64>) -> Latencies {
        let histogram = Histogram::default();
        nanos.into_iter().for_each(|nanos| histogram.record(Duration::from_nanos(nanos)));
        let mut sum = Latencies::default();
        histogram.add_to(&mut sum);
        sum
    }

    #[test]
    fn each_value_lies_in_its_bucket() {
        let mut value = 1_u64;
        while value < 1 << 41 {
            for nanos in [value - 1, value, value + value / 3] {
                let bucket = bucket(nanos);
                let lower = bucket.checked_sub(1).map_or(0, upper_edge);
                assert!((lower..upper_edge(bucket)).contains(&nanos), "{nanos} in {bucket}");
                assert!(nanos < 1_024 || (upper_edge(bucket) - lower) * 16 <= nanos + 16);
            }
            value *= 2;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_rounded_up_by_a_sixteenth_at_most() {
        let latencies = latencies((1..=10_000).map(|i| i * 1_000));
        assert_eq!(latencies.count(), 10_000);
        for (share, exact) in [(0.5, 5_000_000.0), (0.99, 9_900_000.0), (1.0, 10_000_000.0)] {
            let found = latencies.quantile(share).expect("values").as_nanos() as f64;
            assert!(found >= exact && found <= exact * 1.07, "{share}: {found}");
        }
        assert_eq!(latencies.sum(), Duration::from_nanos(50_005_000_000));
        let half = latencies.within(Duration::from_millis(5));
        assert!((4_600..=5_000).contains(&half), "{half}");
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Latencies::default().quantile(0.5), None);
    }
}
