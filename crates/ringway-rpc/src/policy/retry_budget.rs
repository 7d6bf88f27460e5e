//! How many further attempts a target is worth.

use crate::limits;

/// A bucket of tokens that serves the retries and hedges of one target. Every call puts in a
/// tenth of a token and every further attempt takes a whole one, so that a target in trouble gets
/// at most a tenth more load, not a multiple.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBudget {
    tenths: u32,
}

impl RetryBudget {
    /// A first attempt is made.
    pub(crate) fn earn(&mut self) {
        self.tenths = (self.tenths + 1).min(limits::RETRY_BUDGET * 10);
    }

    /// Whether a further attempt may be made; it is paid for then.
    #[must_use]
    pub(crate) fn spend(&mut self) -> bool {
        let affordable = self.tenths >= 10;
        if affordable {
            self.tenths -= 10;
        }
        affordable
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { tenths: limits::RETRY_BUDGET * 10 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_full_and_ten_calls_pay_for_one_attempt() {
        let mut budget = RetryBudget::default();
        let spent = (0..100).filter(|_| budget.spend()).count();
        assert_eq!(spent, limits::RETRY_BUDGET as usize);
        for _ in 0..9 {
            budget.earn();
            assert!(!budget.spend());
        }
        budget.earn();
        assert!(budget.spend());
        assert!(!budget.spend());
    }

    #[test]
    fn it_does_not_grow_beyond_its_cap() {
        let mut budget = RetryBudget::default();
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), limits::RETRY_BUDGET as usize);
    }
}
