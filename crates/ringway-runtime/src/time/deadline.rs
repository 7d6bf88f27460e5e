//! Deadlines, which may be beyond the range of the clock.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// A point in time: an instant, or never.
///
/// Times set by a user are added to the clock by [`after`](Self::after), which does not overflow:
/// `Duration::MAX`, and anything else beyond the range of the clock, means never.
///
/// ```
/// use std::time::{Duration, Instant};
/// use ringway_runtime::Deadline;
///
/// let now = Instant::now();
/// let soon = Deadline::after(now, Duration::from_secs(1));
/// assert_eq!(soon.remaining(now), Duration::from_secs(1));
/// assert_eq!(Deadline::after(now, Duration::MAX), Deadline::NEVER);
/// assert_eq!(soon.min(Deadline::NEVER), soon);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Deadline {
    /// The instant; `None` means never.
    at: Option<Instant>,
}

impl Deadline {
    /// A deadline later than every instant.
    pub const NEVER: Deadline = Deadline { at: None };

    /// The deadline at this instant.
    pub const fn at(instant: Instant) -> Self {
        Self { at: Some(instant) }
    }

    /// The deadline `wait` after `start`; never if that is beyond the range of the clock.
    pub fn after(start: Instant, wait: Duration) -> Self {
        Self { at: start.checked_add(wait) }
    }

    /// The deadline `wait` after `start`; never without a `wait`.
    pub fn after_any(start: Instant, wait: Option<Duration>) -> Self {
        wait.map_or(Self::NEVER, |wait| Self::after(start, wait))
    }

    /// The deadline `wait` later.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        self.at.map_or(Self::NEVER, |at| Self::after(at, wait))
    }

    /// The instant; `None` if it is never.
    pub const fn instant(self) -> Option<Instant> {
        self.at
    }

    /// Whether the deadline is never.
    pub const fn is_never(self) -> bool {
        self.at.is_none()
    }

    /// Whether the deadline has passed at `now`.
    pub fn has_passed(self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// The time left at `now`: zero when the deadline has passed, `Duration::MAX` if it is never.
    pub fn remaining(self, now: Instant) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.at, other.at) {
            (Some(one), Some(other)) => one.cmp(&other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Self {
        Self::at(instant)
    }
}

/// Converts `None` to never.
impl From<Option<Instant>> for Deadline {
    fn from(at: Option<Instant>) -> Self {
        Self { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_range_of_the_clock_is_never() {
        let now = Instant::now();
        for wait in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX)] {
            let deadline = Deadline::after(now, wait);
            assert!(deadline.is_never() && !deadline.has_passed(now), "{wait:?}");
            assert_eq!(deadline.remaining(now), Duration::MAX);
            assert_eq!(Deadline::at(now).plus(wait), Deadline::NEVER);
        }
        assert_eq!(Deadline::NEVER.plus(Duration::ZERO), Deadline::NEVER);
        assert_eq!(Deadline::after_any(now, None), Deadline::NEVER);
    }

    #[test]
    fn never_is_the_latest() {
        let now = Instant::now();
        let later = Deadline::after_any(now, Some(Duration::from_millis(1)));
        let mut deadlines = [Deadline::NEVER, later, Deadline::at(now), Deadline::NEVER];
        deadlines.sort();
        assert_eq!(deadlines, [Deadline::at(now), later, Deadline::NEVER, Deadline::NEVER]);
    }

    #[test]
    fn a_deadline_has_passed_from_its_instant_on() {
        let (now, wait) = (Instant::now(), Duration::from_nanos(1));
        let deadline = Deadline::after(now, wait);
        assert!(!deadline.has_passed(now) && deadline.has_passed(now + wait));
        assert_eq!(deadline.remaining(now), wait);
        assert_eq!(deadline.remaining(now + wait * 2), Duration::ZERO);
    }
}
