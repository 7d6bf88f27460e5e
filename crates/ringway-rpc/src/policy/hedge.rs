//! The delay before a hedge.

use std::time::Duration;

use crate::limits;

/// The running 95th percentile of a method's latency: a call that takes longer is worth a second
/// attempt. It counts in a logarithmic histogram, whose counts are halved from time to time.
#[derive(Clone, Debug)]
pub(crate) struct HedgeDelay {
    /// Four buckets per doubling of microseconds.
    buckets: Box<[u32; BUCKETS]>,
    seen: u32,
}

const BUCKETS: usize = 4 * 32;

impl HedgeDelay {
    pub(crate) fn observe(&mut self, latency: Duration) {
        if self.seen >= limits::HEDGE_MEMORY {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.seen = self.buckets.iter().sum();
        }
        self.buckets[bucket(latency)] += 1;
        self.seen += 1;
    }

    /// Returns how long to wait for the first attempt; `None` before enough calls were seen.
    pub(crate) fn delay(&self) -> Option<Duration> {
        if self.seen < limits::HEDGE_CALLS_MIN {
            return None;
        }
        let mut above = self.seen / 20;
        let slow = self.buckets.iter().enumerate().rev().find(|&(_, &count)| {
            let found = count > above;
            above = above.saturating_sub(count);
            found
        });
        slow.map(|(index, _)| upper_edge(index))
    }
}

impl Default for HedgeDelay {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), seen: 0 }
    }
}

fn bucket(latency: Duration) -> usize {
    let micros = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX).max(4);
    let exponent = micros.ilog2();
    let quarter = (micros >> (exponent - 2)) & 3;
    (exponent * 4 + quarter) as usize
}

fn upper_edge(index: usize) -> Duration {
    let (exponent, quarter) = (index as u32 / 4, index as u64 % 4);
    let edge = (5 + quarter) << exponent >> 2;
    Duration::from_micros(edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_delay_before_enough_calls() {
        let mut delay = HedgeDelay::default();
        for _ in 1..limits::HEDGE_CALLS_MIN {
            delay.observe(Duration::from_millis(1));
        }
        assert_eq!(delay.delay(), None);
        delay.observe(Duration::from_millis(1));
        assert!(delay.delay().is_some());
    }

    #[test]
    fn delay_is_the_95th_percentile_within_a_bucket() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut delay = HedgeDelay::default();
        for _ in 0..20_000 {
            delay.observe(Duration::from_micros(random.u64(1_000..11_000)));
        }
        let p95 = delay.delay().expect("enough calls");
        assert!((10_000..12_500).contains(&p95.as_micros()), "{p95:?}");
    }

    #[test]
    fn delay_follows_a_change() {
        let mut delay = HedgeDelay::default();
        (0..5_000).for_each(|_| delay.observe(Duration::from_millis(100)));
        (0..50_000).for_each(|_| delay.observe(Duration::from_millis(1)));
        assert!(delay.delay().expect("enough calls") < Duration::from_millis(2));
    }

    #[test]
    fn extreme_latencies_have_a_bucket() {
        let mut delay = HedgeDelay::default();
        for latency in [Duration::ZERO, Duration::from_micros(1), Duration::MAX] {
            delay.observe(latency);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        for micros in [4, 5, 7, 8, 1_000, 1_250, 65_535, 4_000_000_000] {
            let edge = upper_edge(bucket(Duration::from_micros(micros)));
            let ratio = edge.as_micros() as f64 / micros as f64;
            assert!(ratio > 1.0 && ratio <= 1.25, "{micros}: {edge:?}");
        }
    }
}
