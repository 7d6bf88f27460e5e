//! Timers of a pool's calls: pauses before retries, and delays of hedges.

use std::task::Waker;
use std::time::Instant;

use crate::slab::{Slab, SlabKey};

#[derive(Default)]
pub(super) struct Timers {
    sleepers: Slab<Sleeper>,
    /// A lower bound of all timers.
    earliest: Option<Instant>,
}

struct Sleeper {
    waker: Option<Waker>,
    /// The time of the timer; `None` once it has fired.
    until: Option<Instant>,
}

impl Timers {
    /// Wakes `waker` at `until`, reusing the timer if there is one. The returned waker must be dropped
    /// after the borrow.
    pub(super) fn set(
        &mut self,
        timer: Option<SlabKey>,
        waker: Waker,
        until: Instant,
    ) -> (SlabKey, Option<Waker>) {
        self.earliest = self.earliest.into_iter().chain([until]).min();
        if let Some(timer) = timer
            && let Some(sleeper) = self.sleepers.get_mut(timer)
        {
            sleeper.until = Some(until);
            return (timer, sleeper.waker.replace(waker));
        }
        let sleeper = Sleeper { waker: Some(waker), until: Some(until) };
        (self.sleepers.insert(sleeper), None)
    }

    /// Removes a timer. The returned waker must be dropped after the borrow.
    pub(super) fn clear(&mut self, timer: SlabKey) -> Option<Waker> {
        self.sleepers.remove(timer)?.waker
    }

    /// The time at which the next timer may fire.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Fires the timers that are due. They exist until they are cleared.
    pub(super) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for sleeper in self.sleepers.iter_mut() {
            match sleeper.until {
                Some(until) if until <= now => {
                    sleeper.until = None;
                    woken.extend(sleeper.waker.take());
                }
                until => earliest = earliest.into_iter().chain(until).min(),
            }
        }
        self.earliest = earliest;
    }

    /// Fires and removes all timers.
    pub(super) fn end_all(&mut self, woken: &mut Vec<Waker>) {
        self.earliest = None;
        woken.extend(self.sleepers.take_all().into_iter().filter_map(|sleeper| sleeper.waker));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sleepers.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_wakes_each_once_and_a_cleared_timer_nobody() {
        let (start, ms) = (Instant::now(), Duration::from_millis(1));
        let mut timers = Timers::default();
        let keys: Vec<_> = [3, 1, 2, 2]
            .map(|at| timers.set(None, Waker::noop().clone(), start + at * ms).0)
            .into();
        assert!(timers.clear(keys[3]).is_some() && timers.clear(keys[3]).is_none());
        assert_eq!(timers.set(Some(keys[1]), Waker::noop().clone(), start + 4 * ms).0, keys[1]);
        let (mut told, mut woken) = (Vec::new(), Vec::new());
        while let Some(at) = timers.earliest() {
            timers.expire(at, &mut woken);
            told.push(((at - start).as_millis(), woken.len()));
        }
        assert_eq!(told, [(1, 0), (2, 1), (3, 2), (4, 3)]);
        assert!(!timers.is_empty(), "they keep their timers");
        timers.end_all(&mut woken);
        assert!(timers.is_empty() && woken.len() == 3);
    }
}
