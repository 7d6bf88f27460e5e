//! The time in which a server reads what its client sends.

use std::time::Duration;

use crate::stamp::Stamp;

/// A clock that stands while input is left unread: a client cannot get on then, so what it may take for the rest of a
/// request counts by this clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadingClock {
    /// The length of all former pauses together.
    paused: Stamp,
    /// Since when input is left unread; `NEVER` while it is read.
    since: Stamp,
}

impl Default for ReadingClock {
    fn default() -> Self {
        Self { paused: Stamp::of(Duration::ZERO), since: Stamp::NEVER }
    }
}

impl ReadingClock {
    /// Stops the clock, or lets it go on. Returns the length of the pause that has ended.
    pub(crate) fn note(&mut self, is_reading: bool, now: Duration) -> Duration {
        let pause = self.pause(now);
        match is_reading {
            true => {
                self.paused = self.paused.after(pause);
                self.since = Stamp::NEVER;
                pause
            }
            false => {
                self.since = self.since.min(Stamp::of(now));
                Duration::ZERO
            }
        }
    }

    /// What the clock shows at `now`.
    pub(crate) fn at(&self, now: Duration) -> Duration {
        let paused = self.paused.time().unwrap_or(Duration::MAX);
        now.saturating_sub(paused).saturating_sub(self.pause(now))
    }

    /// When the clock shows `time` at the earliest. While it stands, that is looked at again after a while.
    pub(crate) fn when(&self, time: Duration, now: Duration) -> Duration {
        let left = time.saturating_sub(self.at(now));
        let is_paused = self.since != Stamp::NEVER && !left.is_zero();
        now.saturating_add(if is_paused { left.max(LOOK_AGAIN) } else { left })
    }

    fn pause(&self, now: Duration) -> Duration {
        self.since.time().map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }
}

/// How often a deadline that does not come nearer is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_clock_stands_while_input_is_left_unread() {
        let mut clock = ReadingClock::default();
        assert_eq!((clock.at(at(5)), clock.when(at(7), at(5))), (at(5), at(7)));
        assert_eq!(clock.note(false, at(10)), Duration::ZERO);
        assert_eq!(clock.note(false, at(12)), Duration::ZERO, "it stands already");
        assert_eq!((clock.at(at(20)), clock.when(at(13), at(20))), (at(10), at(23)));
        assert_eq!(clock.note(true, at(30)), at(20));
        assert_eq!(clock.note(true, at(31)), Duration::ZERO, "it goes already");
        assert_eq!((clock.at(at(31)), clock.when(at(13), at(31))), (at(11), at(33)));
        assert_eq!(clock.when(at(1), at(31)), at(31), "it has shown that");
    }

    #[test]
    fn a_deadline_that_does_not_come_nearer_is_not_looked_at_all_the_time() {
        let mut clock = ReadingClock::default();
        clock.note(false, at(10));
        let soon = at(10) + Duration::from_nanos(1);
        assert_eq!(clock.when(soon, at(60)), at(61));
        assert_eq!(clock.when(at(10), at(60)), at(60), "it had come before");
    }
}
