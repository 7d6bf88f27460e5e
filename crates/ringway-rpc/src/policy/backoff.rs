//! The delay before a retry.

use std::time::Duration;

use crate::limits;

/// Delays with a doubling upper bound. Each is a random part of its bound ("full jitter"), so that
/// the clients of a failed host do not retry in step.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryBackoff {
    retries: u32,
}

impl RetryBackoff {
    /// Returns the delay before the next retry.
    pub(crate) fn next(&mut self, random: &mut fastrand::Rng) -> Duration {
        let doubled = 2_u32.saturating_pow(self.retries);
        self.retries = self.retries.saturating_add(1);
        let longest = limits::RETRY_DELAY_FIRST.saturating_mul(doubled);
        longest.min(limits::RETRY_DELAY_MAX).mul_f64(random.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_random_below_a_doubling_bound() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut longest = [Duration::ZERO; 8];
        for _ in 0..500 {
            let mut backoff = RetryBackoff::default();
            for longest in &mut longest {
                *longest = backoff.next(&mut random).max(*longest);
            }
        }
        for (i, longest) in longest.into_iter().enumerate() {
            let bound = (limits::RETRY_DELAY_FIRST * (1 << i)).min(limits::RETRY_DELAY_MAX);
            assert!(longest <= bound && longest > bound.mul_f64(0.95), "{i}: {longest:?}");
        }
    }

    #[test]
    fn many_retries_do_not_overflow() {
        let mut backoff = RetryBackoff { retries: u32::MAX };
        let wait = backoff.next(&mut fastrand::Rng::with_seed(1));
        assert!(wait <= limits::RETRY_DELAY_MAX);
    }
}
