//! How often a peer may do what costs us more than it.

use std::time::Duration;

/// How often something may happen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// So often at once.
    pub(crate) burst: u32,
    /// So often in the long run.
    pub(crate) per_second: u32,
}

/// Tokens that come back with time: one is taken for each event.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: u32,
    rate: Rate,
    filled: Duration,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, now: Duration) -> Self {
        Self { tokens: rate.burst, rate, filled: now }
    }

    /// Takes a token; `false` when there is none.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let Some(left) = self.fill(now).checked_sub(1) else {
            return false;
        };
        self.tokens = left;
        true
    }

    /// How many tokens there are.
    fn fill(&mut self, now: Duration) -> u32 {
        let passed = now.saturating_sub(self.filled);
        let earned = passed.as_millis().saturating_mul(u128::from(self.rate.per_second)) / 1_000;
        if earned > 0 {
            self.add(u64::try_from(earned).unwrap_or(u64::MAX));
            self.filled = now;
        }
        self.tokens
    }

    /// Puts tokens back that were earned otherwise.
    fn add(&mut self, earned: u64) {
        let tokens = u64::from(self.tokens).saturating_add(earned);
        self.tokens = tokens.min(self.rate.burst.into()) as u32;
    }

    /// When the next token comes back with time.
    pub(crate) fn next(&self) -> Duration {
        let ms = 1_000_u32.div_ceil(self.rate.per_second.max(1));
        self.filled.saturating_add(Duration::from_millis(ms.into()))
    }
}

/// Tokens that are earned by requests as well: who makes many may do more.
#[derive(Debug)]
pub(crate) struct Allowance {
    bucket: Bucket,
    /// Tokens for a request, in halves.
    halves: u64,
    /// Requests that were counted.
    requests: u64,
}

impl Allowance {
    pub(crate) fn new(rate: Rate, halves: u64, now: Duration) -> Self {
        Self { bucket: Bucket::new(rate, now), halves, requests: 0 }
    }

    /// Takes a token; `false` when there is none. So many requests were made so far.
    pub(crate) fn take(&mut self, now: Duration, requests: u64) -> bool {
        let earned = (requests - self.requests) * self.halves / 2;
        self.requests += earned * 2 / self.halves; // what is left of a token counts next time
        self.bucket.add(earned);
        self.bucket.take(now)
    }

    /// Whether at least a part of the burst, an eighth, has come back with time. What requests have
    /// earned meanwhile is lost then.
    pub(crate) fn has_recovered(&mut self, now: Duration, requests: u64) -> bool {
        let has_recovered = self.bucket.fill(now) >= self.bucket.rate.burst / 8;
        if has_recovered {
            self.requests = requests;
        }
        has_recovered
    }

    /// When the next token comes back with time.
    pub(crate) fn next(&self) -> Duration {
        self.bucket.next()
    }
}

/// A short name for a time. All that a caller takes in within one turn has the same; another turn has
/// it once in a billion.
#[inline]
pub(crate) fn moment(now: Duration) -> u32 {
    now.subsec_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn tokens_run_out_and_come_back() {
        let mut bucket = Bucket::new(Rate { burst: 2, per_second: 10 }, Duration::ZERO);
        let at = Duration::from_millis;
        let taken = [0, 0, 0, 99, 100, 100, 5_000, 5_000, 5_000].map(|ms| bucket.take(at(ms)));
        assert_eq!(taken, [true, true, false, false, true, false, true, true, false]);
    }

    #[test]
    fn requests_earn_tokens() {
        let mut half = Allowance::new(Rate { burst: 2, per_second: 0 }, 1, Duration::ZERO);
        let taken = [1, 2, 3, 4, 5, 6, 7, 90, 90, 90].map(|requests| half.take(NOW, requests));
        assert_eq!(taken, [true, true, true, true, false, true, false, true, true, false]);
        let mut double = Allowance::new(Rate { burst: 2, per_second: 0 }, 4, Duration::ZERO);
        let taken = [0, 0, 0, 1, 1, 1].map(|requests| double.take(NOW, requests));
        assert_eq!(taken, [true, true, false, true, true, false]);
    }
}
