//! Estimates of waiting times in a queue.

use std::time::Duration;

use crate::limits;

/// The time per position of a queue, estimated from the recent rate of service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// The start of the measuring window, and how many were served in it.
    began: Duration,
    served: u32,
    /// The time per position in the previous window.
    each: Duration,
}

impl Pace {
    /// Starts a window, because the queue was empty until now.
    pub(crate) fn begin(&mut self, now: Duration) {
        (self.began, self.served) = (now, 0);
    }

    /// Notes that one waiter was served.
    pub(crate) fn served(&mut self, now: Duration) {
        self.served = self.served.saturating_add(1);
        let length = now.saturating_sub(self.began);
        if length >= limits::PACE_WINDOW {
            self.each = length / self.served;
            (self.began, self.served) = (now, 0);
        }
    }

    /// Estimates the wait of a waiter behind `position` others.
    pub(crate) fn wait_of(&self, position: usize, now: Duration) -> Duration {
        let length = now.saturating_sub(self.began);
        let each = match length >= limits::PACE_WINDOW {
            // No waiter was served for a while.
            true => self.each.max(length / self.served.saturating_add(1)),
            false => self.each,
        };
        each.saturating_mul(u32::try_from(position).unwrap_or(u32::MAX))
    }

    /// Whether a new waiter with `patience` behind `position` others should be rejected, because most
    /// waiters served in order would be served too late.
    ///
    /// It depends on the length of the queue and not on how long anyone has waited, so it ends as
    /// soon as the queue is short enough.
    pub(crate) fn is_hopeless(&self, position: usize, patience: Duration, now: Duration) -> bool {
        self.wait_of(position, now) > patience / limits::PATIENCE_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn wait_is_estimated_from_the_rate_of_service() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait_of(1_000, MS), Duration::ZERO, "nothing is known");
        pace.begin(100 * MS);
        for number in 1..=300 {
            // Served in bursts of ten.
            pace.served((100 + number / 10 * 10) * MS);
        }
        let wait = pace.wait_of(1_000, 400 * MS);
        assert!((900 * MS..1_100 * MS).contains(&wait), "{wait:?}");
        assert!(pace.is_hopeless(1_000, 1_000 * MS, 400 * MS));
        assert!(!pace.is_hopeless(1_000, 6_000 * MS, 400 * MS));
        assert!(!pace.is_hopeless(100, 1_000 * MS, 400 * MS));
    }

    #[test]
    fn wait_grows_while_no_waiter_is_served() {
        let mut pace = Pace::default();
        pace.begin(Duration::ZERO);
        let standing = limits::PACE_WINDOW * 10;
        assert_eq!(pace.wait_of(3, standing), standing * 3);
        // Time without waiters does not count.
        pace.begin(standing);
        assert_eq!(pace.wait_of(3, standing + MS), Duration::ZERO);
    }
}
