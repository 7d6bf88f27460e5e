//! The virtual clock and the scheduled actions.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

/// Actions by time; those of one moment run in the order in which they were scheduled.
#[derive(Debug)]
pub(super) struct Schedule<A> {
    /// Time since the start of the simulation; never goes back.
    now: Duration,
    entries: BinaryHeap<Reverse<Entry<A>>>,
    next_order: u64,
}

#[derive(Debug)]
struct Entry<A> {
    at: Duration,
    order: u64,
    action: A,
}

impl<A> Schedule<A> {
    pub(super) fn new() -> Self {
        Self { now: Duration::ZERO, entries: BinaryHeap::new(), next_order: 0 }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Schedules an action; a time in the past means now.
    pub(super) fn at(&mut self, at: Duration, action: A) {
        let entry = Entry { at: at.max(self.now), order: self.next_order, action };
        self.next_order += 1;
        self.entries.push(Reverse(entry));
    }

    pub(super) fn after(&mut self, delay: Duration, action: A) {
        self.at(self.now + delay, action);
    }

    /// The time of the next action.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    pub(super) fn is_due(&self) -> bool {
        self.next_at().is_some_and(|at| at <= self.now)
    }

    /// Takes an action that is due.
    pub(super) fn pop_due(&mut self) -> Option<A> {
        if !self.is_due() {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry.action)
    }

    pub(super) fn advance_to(&mut self, at: Duration) {
        self.now = self.now.max(at);
    }
}

impl<A> Ord for Entry<A> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<A> PartialOrd for Entry<A> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> PartialEq for Entry<A> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<A> Eq for Entry<A> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_come_out_by_time_then_by_order() {
        let mut schedule = Schedule::new();
        let ms = Duration::from_millis;
        schedule.at(ms(2), "late");
        schedule.at(ms(1), "first");
        schedule.at(ms(1), "second");
        assert_eq!(schedule.pop_due(), None);
        assert_eq!(schedule.next_at(), Some(ms(1)));
        schedule.advance_to(ms(1));
        assert_eq!(schedule.pop_due(), Some("first"));
        assert_eq!(schedule.pop_due(), Some("second"));
        assert_eq!(schedule.pop_due(), None);
        schedule.advance_to(ms(5));
        schedule.at(ms(3), "past");
        assert_eq!(schedule.pop_due(), Some("late"));
        assert_eq!(schedule.pop_due(), Some("past"));
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut schedule = Schedule::<()>::new();
        schedule.advance_to(Duration::from_secs(2));
        schedule.advance_to(Duration::from_secs(1));
        assert_eq!(schedule.now(), Duration::from_secs(2));
    }
}
