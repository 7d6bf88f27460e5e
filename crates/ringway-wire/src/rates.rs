//! Rate limits for actions of a peer that cost us more than it.

use std::time::Duration;

/// How often an event may happen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Number of events allowed at once.
    pub(crate) burst: u32,
    /// Number of events allowed per second in the long run.
    pub(crate) per_second: u32,
}

/// A token bucket: each event takes one token, and tokens return with time.
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

    /// Takes a token; `false` if there is none.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let Some(left) = self.fill(now).checked_sub(1) else {
            return false;
        };
        self.tokens = left;
        true
    }

    /// Adds the tokens earned since the last call, and returns their number.
    fn fill(&mut self, now: Duration) -> u32 {
        let passed = now.saturating_sub(self.filled);
        let earned = passed.as_millis().saturating_mul(u128::from(self.rate.per_second)) / 1_000;
        if earned > 0 {
            self.add(u64::try_from(earned).unwrap_or(u64::MAX));
            self.filled = now;
        }
        self.tokens
    }

    /// Adds tokens that were earned by other means than time.
    fn add(&mut self, earned: u64) {
        let tokens = u64::from(self.tokens).saturating_add(earned);
        self.tokens = tokens.min(self.rate.burst.into()) as u32;
    }

    /// The time at which the next token returns.
    pub(crate) fn next(&self) -> Duration {
        let ms = 1_000_u32.div_ceil(self.rate.per_second.max(1));
        self.filled.saturating_add(Duration::from_millis(ms.into()))
    }
}

/// A token bucket to which requests add tokens as well, so that busy peers may do more.
#[derive(Debug)]
pub(crate) struct Allowance {
    bucket: Bucket,
    /// Tokens that a request adds, in halves.
    halves: u64,
    /// Number of requests that were counted.
    requests: u64,
}

impl Allowance {
    pub(crate) fn new(rate: Rate, halves: u64, now: Duration) -> Self {
        Self { bucket: Bucket::new(rate, now), halves, requests: 0 }
    }

    /// Takes a token; `false` if there is none. `requests` is the number of requests so far.
    pub(crate) fn take(&mut self, now: Duration, requests: u64) -> bool {
        let earned = (requests - self.requests) * self.halves / 2;
        self.requests += earned * 2 / self.halves; // the rest of a token counts next time
        self.bucket.add(earned);
        self.bucket.take(now)
    }

    /// Whether an eighth of the burst has returned with time. If so, tokens that requests earned
    /// meanwhile are lost.
    pub(crate) fn has_recovered(&mut self, now: Duration, requests: u64) -> bool {
        let has_recovered = self.bucket.fill(now) >= self.bucket.rate.burst / 8;
        if has_recovered {
            self.requests = requests;
        }
        has_recovered
    }

    /// The time at which the next token returns.
    pub(crate) fn next(&self) -> Duration {
        self.bucket.next()
    }
}

/// A short stamp of a time. Everything that a caller handles within one turn has the same stamp,
/// and another turn has it with a probability of one in a billion.
#[inline]
pub(crate) fn moment(now: Duration) -> u32 {
    now.subsec_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn tokens_run_out_and_return_with_time() {
        let mut bucket = Bucket::new(Rate { burst: 2, per_second: 10 }, Duration::ZERO);
        let at = Duration::from_millis;
        let taken = [0, 0, 0, 99, 100, 100, 5_000, 5_000, 5_000].map(|ms| bucket.take(at(ms)));
        assert_eq!(taken, [true, true, false, false, true, false, true, true, false]);
    }

    #[test]
    fn requests_add_tokens() {
        let mut half = Allowance::new(Rate { burst: 2, per_second: 0 }, 1, Duration::ZERO);
        let taken = [1, 2, 3, 4, 5, 6, 7, 90, 90, 90].map(|requests| half.take(NOW, requests));
        assert_eq!(taken, [true, true, true, true, false, true, false, true, true, false]);
        let mut double = Allowance::new(Rate { burst: 2, per_second: 0 }, 4, Duration::ZERO);
        let taken = [0, 0, 0, 1, 1, 1].map(|requests| double.take(NOW, requests));
        assert_eq!(taken, [true, true, false, true, true, false]);
    }
}
