//! The maximum age of connections, which makes clients spread over servers that were started later.

use std::cell::Cell;
use std::time::Duration;

use super::settings::Settings;
use crate::limits;

/// When a connection stops accepting calls, and how long the running ones may still take. Most servers
/// set no age.
#[derive(Debug)]
pub(super) struct Age(Option<Box<AgeLimit>>);

#[derive(Debug)]
struct AgeLimit {
    retires_at: Duration,
    grace: Duration,
    /// The time at which the calls still running are ended, once no new ones are accepted.
    ends_at: Cell<Option<Duration>>,
}

impl Age {
    /// Computes the age limit of a new connection, with jitter so that clients that connected together do
    /// not all come back at once.
    pub(super) fn new(settings: &Settings, now: Duration) -> Self {
        let jitter = limits::CONNECTION_AGE_JITTER;
        Self(settings.connection_age_max.map(|age| {
            let factor = 1.0 - jitter + 2.0 * jitter * fastrand::f64();
            let age = Duration::try_from_secs_f64(age.as_secs_f64() * factor);
            Box::new(AgeLimit {
                retires_at: now.saturating_add(age.unwrap_or(Duration::MAX)),
                grace: settings.connection_age_grace,
                ends_at: Cell::new(None),
            })
        }))
    }

    /// The time at which [`retire`](Self::retire) is due.
    #[inline]
    pub(super) fn due(&self) -> Option<Duration> {
        let limit = self.0.as_ref()?;
        limit.ends_at.get().is_none().then_some(limit.retires_at)
    }

    /// Returns the grace period once, when the connection has reached its age and stops accepting calls.
    pub(super) fn retire(&self, now: Duration) -> Option<Duration> {
        self.due().filter(|&at| now >= at)?;
        let limit = self.0.as_ref()?;
        limit.ends_at.set(Some(now.saturating_add(limit.grace)));
        Some(limit.grace)
    }

    /// Whether the connection has stopped accepting calls because of its age.
    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        self.0.as_ref().is_some_and(|limit| limit.ends_at.get().is_some())
    }

    /// The time at which the calls that still run are ended.
    pub(super) fn calls_end_at(&self) -> Option<Duration> {
        let limit = self.0.as_ref()?;
        let planned = limit.retires_at.saturating_add(limit.grace);
        Some(limit.ends_at.get().unwrap_or(planned))
    }

    /// Whether the time for running calls is over. In a server that drains, only `drain_left` counts, not
    /// the age of the connection.
    pub(super) fn is_over(&self, now: Duration, drain_left: Option<Duration>) -> bool {
        match drain_left {
            Some(left) => left.is_zero(),
            None => {
                let ends_at = self.0.as_ref().and_then(|limit| limit.ends_at.get());
                ends_at.is_some_and(|at| now >= at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(age: Option<u64>, grace: u64) -> Settings {
        Settings {
            connection_age_max: age.map(Duration::from_secs),
            connection_age_grace: Duration::from_secs(grace),
            ..Settings::default()
        }
    }

    #[test]
    fn connections_end_a_tenth_around_their_age_and_calls_have_their_grace() {
        let now = Duration::from_secs(1_000);
        let ends = |_| Age::new(&settings(Some(100), 7), now).due().expect("it has one");
        let all: Vec<Duration> = (0..1_000).map(ends).collect();
        let (least, most) = (all.iter().min().expect("some"), all.iter().max().expect("some"));
        let within = Duration::from_secs(1_090)..=Duration::from_secs(1_110);
        assert!(within.contains(least) && within.contains(most), "{least:?} to {most:?}");
        assert!(*most - *least > Duration::from_secs(10), "they spread: {least:?} to {most:?}");

        let age = Age::new(&settings(Some(100), 7), now);
        let due = age.due().expect("it has one");
        assert_eq!((age.retire(due - Duration::from_nanos(1)), age.is_retired()), (None, false));
        assert_eq!(age.retire(due), Some(Duration::from_secs(7)));
        assert_eq!((age.retire(due), age.due(), age.is_retired()), (None, None, true));
        let [before, over] = [6, 7].map(|after| due + Duration::from_secs(after));
        assert_eq!([before, over].map(|at| age.is_over(at, None)), [false, true]);
        // A server that drains has another time, which counts from the drain on.
        let left = Some(Duration::from_secs(1));
        assert_eq!([before, over].map(|at| age.is_over(at, left)), [false, false]);
        assert_eq!([before, over].map(|at| age.is_over(at, Some(Duration::ZERO))), [true, true]);
    }

    #[test]
    fn ages_beyond_all_clocks_never_come() {
        let age = Age::new(&settings(Some(u64::MAX), u64::MAX), Duration::MAX);
        assert_eq!(age.due(), Some(Duration::MAX));
        assert_eq!(Age::new(&settings(None, 1), Duration::ZERO).due(), None);
    }
}
