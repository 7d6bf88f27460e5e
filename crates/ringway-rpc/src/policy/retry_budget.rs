//! The budget of retries and hedges.

use crate::limits;

/// A token bucket for the retries and hedges of one target. Every call adds a tenth of a token and
/// every further attempt takes a whole one, so that a failing target gets at most a tenth more
/// load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBudget {
    tenths: u32,
}

impl RetryBudget {
    /// Adds a tenth of a token for a first attempt.
    pub(crate) fn earn(&mut self) {
        self.tenths = (self.tenths + 1).min(limits::RETRY_BUDGET * 10);
    }

    /// Takes a token for a further attempt; returns false if there is none.
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
    fn budget_starts_full_and_ten_calls_pay_for_one_attempt() {
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
    fn budget_is_capped() {
        let mut budget = RetryBudget::default();
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), limits::RETRY_BUDGET as usize);
    }
}
