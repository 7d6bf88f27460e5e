//! The clock of a turn, which all of its code shares.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The time of a turn: set once after each wait, and read many times.
pub(super) struct TurnClock {
    origin: Instant,
    now: Cell<Instant>,
    /// Time between origin and now, once it was asked for, since subtracting instants is expensive.
    uptime: Cell<Option<Duration>>,
}

impl TurnClock {
    pub(super) fn new(origin: Instant) -> Self {
        Self { origin, now: Cell::new(origin), uptime: Cell::new(None) }
    }

    pub(super) fn set(&self, now: Instant) {
        self.now.set(now);
        self.uptime.set(None);
    }

    pub(super) fn origin(&self) -> Instant {
        self.origin
    }

    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.now.get()
    }

    #[inline]
    pub(super) fn uptime(&self) -> Duration {
        self.uptime.get().unwrap_or_else(|| self.subtract())
    }

    #[cold]
    fn subtract(&self) -> Duration {
        let uptime = self.now.get().saturating_duration_since(self.origin);
        self.uptime.set(Some(uptime));
        uptime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_the_origin_follows_each_setting() {
        let origin = Instant::now();
        let clock = TurnClock::new(origin);
        assert_eq!((clock.now(), clock.uptime()), (origin, Duration::ZERO));
        for later in [Duration::from_nanos(1), Duration::from_secs(2)] {
            clock.set(origin + later);
            assert_eq!((clock.now(), clock.uptime()), (origin + later, later));
            assert_eq!(clock.uptime(), later, "asked again");
        }
    }
}
