//! Whose request over HTTP/2 is begun next, when more have come than a core begins in one turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::guest_endings::Endings;
use crate::limits;

/// A connection with requests that wait to be begun.
pub(super) trait BeginsGuests {
    /// Begins the one that waits longest. Whether others wait.
    fn begin_next(&self) -> bool;
}

/// The connections of a core whose requests wait to be begun.
#[derive(Default)]
pub(super) struct GuestLine {
    /// The time of the turn in which a request was last begun, and how many were.
    turn: Cell<Duration>,
    begun: Cell<usize>,
    /// A connection stands in it once.
    pub(super) waiting: RefCell<VecDeque<Weak<dyn BeginsGuests>>>,
    /// Whether the task runs that begins them.
    pub(super) has_pacer: Cell<bool>,
    /// The requests of connections that have ended.
    pub(super) endings: Rc<Endings>,
}

impl GuestLine {
    /// Whether a request may be begun in the turn that began at `now`, which counts it.
    pub(super) fn lets_in(&self, now: Duration) -> bool {
        if self.has_pacer.get() {
            return false; // others come first
        }
        if self.turn.replace(now) != now {
            self.begun.set(0);
        }
        let lets_in = self.begun.get() < limits::GUESTS_PER_TURN;
        self.begun.set(self.begun.get() + usize::from(lets_in));
        lets_in
    }

    /// The next connection of the line.
    pub(super) fn next(&self) -> Option<Rc<dyn BeginsGuests>> {
        loop {
            let next = self.waiting.borrow_mut().pop_front()?;
            if let Some(connection) = next.upgrade() {
                return Some(connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_a_bounded_number_and_none_past_those_that_wait() {
        let line = GuestLine::default();
        let at = Duration::from_millis;
        let let_in = |now| (0..1_000).filter(|_| line.lets_in(now)).count();
        assert_eq!(
            [1, 1, 2].map(|ms| let_in(at(ms))),
            [limits::GUESTS_PER_TURN, 0, limits::GUESTS_PER_TURN]
        );
        line.has_pacer.set(true);
        assert_eq!(let_in(at(3)), 0);
    }
}
