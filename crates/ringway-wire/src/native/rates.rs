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
pub(super) struct Bucket {
    tokens: u32,
    rate: Rate,
    filled: Duration,
}

impl Bucket {
    pub(super) fn new(rate: Rate, now: Duration) -> Self {
        Self { tokens: rate.burst, rate, filled: now }
    }

    /// Takes a token; `false` when there is none.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled);
        let earned = passed.as_millis().saturating_mul(u128::from(self.rate.per_second)) / 1_000;
        if earned > 0 {
            self.add(u32::try_from(earned).unwrap_or(u32::MAX));
            self.filled = now;
        }
        let Some(left) = self.tokens.checked_sub(1) else {
            return false;
        };
        self.tokens = left;
        true
    }

    /// Puts tokens back that were earned otherwise.
    pub(super) fn add(&mut self, earned: u32) {
        self.tokens = self.tokens.saturating_add(earned).min(self.rate.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_run_out_and_come_back() {
        let mut bucket = Bucket::new(Rate { burst: 2, per_second: 10 }, Duration::ZERO);
        let at = Duration::from_millis;
        let taken = [0, 0, 0, 99, 100, 100, 5_000, 5_000, 5_000].map(|ms| bucket.take(at(ms)));
        assert_eq!(taken, [true, true, false, false, true, false, true, true, false]);
    }
}
