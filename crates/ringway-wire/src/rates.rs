//! Rate limits for actions of a peer that cost us more than it.

use std::time::Duration;

use crate::limits::BYTE_TIME;

/// How often an event may happen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Number of events allowed at once.
    pub(crate) burst: u32,
    /// Number of events allowed per second in the long run.
    pub(crate) per_second: u32,
}

/// A token bucket: each event takes one token, and tokens return with time. A connection has several,
/// so the rate is the caller's, the same in each call.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: u32,
    /// When tokens were last added, in milliseconds modulo 2^32. More than 24 days without an event
    /// earn nothing, since they cannot be told from a time that went back.
    filled_ms: u32,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: Rate, now: Duration) -> Self {
        Self { tokens: rate.burst, filled_ms: ms(now) }
    }

    /// Takes a token; `false` if there is none.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration) -> bool {
        let Some(left) = self.fill(rate, now).checked_sub(1) else {
            return false;
        };
        self.tokens = left;
        true
    }

    /// Adds the tokens earned since the last call, and returns their number.
    fn fill(&mut self, rate: Rate, now: Duration) -> u32 {
        let mut passed = ms(now).wrapping_sub(self.filled_ms);
        if passed > u32::MAX / 2 {
            (self.filled_ms, passed) = (ms(now), 0);
        }
        let earned = u64::from(passed) * u64::from(rate.per_second) / 1_000;
        if earned > 0 {
            self.add(rate, earned);
            self.filled_ms = ms(now);
        }
        self.tokens
    }

    /// Adds tokens that were earned by other means than time.
    fn add(&mut self, rate: Rate, earned: u64) {
        let tokens = u64::from(self.tokens).saturating_add(earned);
        self.tokens = tokens.min(rate.burst.into()) as u32;
    }

    /// The time at which the next token returns, if it has not by `now`.
    pub(crate) fn next(&self, rate: Rate, now: Duration) -> Duration {
        let step = 1_000_u32.div_ceil(rate.per_second.max(1));
        let left = step.saturating_sub(ms(now).wrapping_sub(self.filled_ms));
        now.saturating_add(Duration::from_millis(left.into()))
    }
}

/// A token bucket to which requests add tokens as well, each `HALVES` halves of one, so that busy
/// peers may do more.
#[derive(Debug)]
pub(crate) struct Allowance<const HALVES: u32> {
    bucket: Bucket,
    /// Number of requests that were counted, modulo 2^32.
    requests: u32,
}

impl<const HALVES: u32> Allowance<HALVES> {
    pub(crate) fn new(rate: Rate, now: Duration) -> Self {
        Self { bucket: Bucket::new(rate, now), requests: 0 }
    }

    /// Takes a token; `false` if there is none. `requests` is the number of requests so far.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration, requests: u64) -> bool {
        let new = u64::from((requests as u32).wrapping_sub(self.requests));
        let earned = new * u64::from(HALVES) / 2;
        let counted = earned * 2 / u64::from(HALVES); // the rest of a token counts next time
        self.requests = self.requests.wrapping_add(counted as u32);
        self.bucket.add(rate, earned);
        self.bucket.take(rate, now)
    }

    /// Whether an eighth of the burst has returned with time. If so, tokens that requests earned
    /// meanwhile are lost.
    pub(crate) fn has_recovered(&mut self, rate: Rate, now: Duration, requests: u64) -> bool {
        let has_recovered = self.bucket.fill(rate, now) >= rate.burst / 8;
        if has_recovered {
            self.requests = requests as u32;
        }
        has_recovered
    }

    /// The time at which the next token returns, if it has not by `now`.
    pub(crate) fn next(&self, rate: Rate, now: Duration) -> Duration {
        self.bucket.next(rate, now)
    }
}

/// The time since which a peer stands still that has now moved `bytes`, and stood still since `touched` before. A few
/// bytes count for as long as they may take, and not as if it had moved all the time.
pub(crate) fn moved(touched: Duration, bytes: usize, now: Duration) -> Duration {
    let time = BYTE_TIME.saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX));
    touched.saturating_add(time).min(now)
}

/// The milliseconds of a time, modulo 2^32.
fn ms(time: Duration) -> u32 {
    time.as_millis() as u32
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
        let rate = Rate { burst: 2, per_second: 10 };
        // The milliseconds of a time pass 2^32 after 49 days.
        for start in [0, u64::from(u32::MAX) - 50, u64::from(u32::MAX) + 1] {
            let at = |ms| Duration::from_millis(start + ms);
            let mut bucket = Bucket::new(rate, at(0));
            let taken = [0, 0, 0, 99, 100, 100, 5_000, 5_000, 5_000];
            let taken = taken.map(|ms| bucket.take(rate, at(ms)));
            assert_eq!(taken, [true, true, false, false, true, false, true, true, false]);
            assert_eq!(bucket.next(rate, at(5_040)), at(5_100));
        }
    }

    #[test]
    fn a_few_bytes_count_for_the_time_that_they_may_take() {
        let at = Duration::from_secs;
        assert_eq!(moved(at(10), 20, at(300)), at(12));
        assert_eq!(moved(at(10), 4_096, at(300)), at(300));
        assert_eq!(moved(at(10), usize::MAX, at(10)), at(10));
    }

    #[test]
    fn requests_add_tokens() {
        let rate = Rate { burst: 2, per_second: 0 };
        let mut half = Allowance::<1>::new(rate, NOW);
        let taken =
            [1, 2, 3, 4, 5, 6, 7, 90, 90, 90].map(|requests| half.take(rate, NOW, requests));
        assert_eq!(taken, [true, true, true, true, false, true, false, true, true, false]);
        let mut double = Allowance::<4>::new(rate, NOW);
        let taken = [0, 0, 0, 1, 1, 1].map(|requests| double.take(rate, NOW, requests));
        assert_eq!(taken, [true, true, false, true, true, false]);
    }
}
