//! How long those who wait in a line will have to wait.

use std::time::Duration;

use crate::limits;

/// The time that each place of a line takes, from how many were served of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// The window of measuring, and who was served in it.
    began: Duration,
    served: u32,
    /// What the window before has shown.
    each: Duration,
}

impl Pace {
    /// Somebody waits who is the first to do so: the time before was nobody's.
    pub(crate) fn begin(&mut self, now: Duration) {
        (self.began, self.served) = (now, 0);
    }

    /// One of those who waited was served.
    pub(crate) fn served(&mut self, now: Duration) {
        self.served = self.served.saturating_add(1);
        let length = now.saturating_sub(self.began);
        if length >= limits::PACE_WINDOW {
            self.each = length / self.served;
            (self.began, self.served) = (now, 0);
        }
    }

    /// How long it takes until so many more are served.
    pub(crate) fn wait_of(&self, places: usize, now: Duration) -> Duration {
        let length = now.saturating_sub(self.began);
        let each = match length >= limits::PACE_WINDOW {
            // Nobody was served since a while ago.
            true => self.each.max(length / self.served.saturating_add(1)),
            false => self.each,
        };
        each.saturating_mul(u32::try_from(places).unwrap_or(u32::MAX))
    }

    /// Whether so many are before whoever comes now and has `patience` that most of those who are
    /// served in order would be served too late.
    ///
    /// It depends on who waits and not on how long anybody has waited, so that it ends as soon as the
    /// line is short enough.
    pub(crate) fn is_hopeless(&self, places: usize, patience: Duration, now: Duration) -> bool {
        self.wait_of(places, now) > patience / limits::PATIENCE_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_line_is_as_long_as_its_places_take() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait_of(1_000, MS), Duration::ZERO, "nothing is known");
        pace.begin(100 * MS);
        for number in 1..=300 {
            // In bursts of ten.
            pace.served((100 + number / 10 * 10) * MS);
        }
        let wait = pace.wait_of(1_000, 400 * MS);
        assert!((900 * MS..1_100 * MS).contains(&wait), "{wait:?}");
        assert!(pace.is_hopeless(1_000, 1_000 * MS, 400 * MS));
        assert!(!pace.is_hopeless(1_000, 6_000 * MS, 400 * MS));
        assert!(!pace.is_hopeless(100, 1_000 * MS, 400 * MS));
    }

    #[test]
    fn a_line_that_stands_still_becomes_longer() {
        let mut pace = Pace::default();
        pace.begin(Duration::ZERO);
        let standing = limits::PACE_WINDOW * 10;
        assert_eq!(pace.wait_of(3, standing), standing * 3);
        // The time in which nobody waits does not count.
        pace.begin(standing);
        assert_eq!(pace.wait_of(3, standing + MS), Duration::ZERO);
    }
}
