//! A time in eight bytes.

use std::time::Duration;

/// A time since the caller's origin, in nanoseconds. A connection that is idle holds little else
/// than such times, and a `Duration` takes twice the room. What lies 584 years ahead is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Later than every other time.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    #[inline]
    pub(crate) fn of(time: Duration) -> Self {
        let ns = time.as_secs().saturating_mul(1_000_000_000);
        Self(ns.saturating_add(time.subsec_nanos().into()))
    }

    #[inline]
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(Self::of(wait).0))
    }

    /// Whether it is not after `now`.
    #[inline]
    pub(crate) fn has_come(self, now: Duration) -> bool {
        self <= Self::of(now)
    }

    /// The time as others count it; `None` if it is never.
    #[inline]
    pub(crate) fn time(self) -> Option<Duration> {
        (self != Self::NEVER).then(|| Duration::from_nanos(self.0))
    }
}

/// Stands for the time of the next look at the clock, where something begins that no input has told the time of.
pub(crate) const AT_NEXT_LOOK: Duration = Duration::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_the_nanosecond_and_never_is_the_latest() {
        let time = Duration::new(86_400 * 365 * 100, 123_456_789);
        assert_eq!(Stamp::of(time).time(), Some(time));
        assert!(Stamp::of(time).has_come(time) && !Stamp::NEVER.has_come(time));
        let next = Stamp::of(time).after(Duration::from_nanos(1));
        assert!(!next.has_come(time) && next < Stamp::NEVER);
        for wait in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            assert_eq!(next.after(wait), Stamp::NEVER);
        }
        assert_eq!(Stamp::NEVER.time(), None);
    }
}
