//! The bytes that a core keeps for readers, and what it does when they become too many.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::spawn_named;

use super::connection::NativeConnection;
use super::core::ServerCore;
use crate::limits;

/// What all connections of a core keep, of what they may.
#[derive(Debug)]
pub(super) struct Budget {
    max: usize,
    kept: Cell<usize>,
    /// Until when clients are asked for less at least, if they are.
    tight_until: Cell<Option<Duration>>,
    /// Something is about to be done: nothing more is received until then.
    is_strained: Cell<bool>,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        let (kept, tight_until, is_strained) = Default::default();
        Self { max, kept, tight_until, is_strained }
    }

    /// Whether connections are to receive nothing more for a moment.
    #[inline]
    pub(super) fn is_strained(&self) -> bool {
        self.is_strained.get()
    }

    /// Whether clients are asked for less.
    pub(super) fn is_tight(&self) -> bool {
        self.tight_until.get().is_some()
    }

    /// What is kept now, when a connection that kept `before` keeps `after`.
    fn change(&self, before: usize, after: usize) -> usize {
        let kept = self.kept.get() - before + after;
        self.kept.set(kept);
        kept
    }

    /// Whether [`ServerCore::relieve`] has something to do.
    #[inline]
    fn needs_care(&self, now: Duration) -> bool {
        let kept = self.kept.get();
        match self.tight_until.get() {
            None => kept > self.max / 2,
            Some(until) => kept > self.max || kept < self.max / 4 && now >= until,
        }
    }

    /// Whether clients are to be asked for less, or no longer, if that has changed.
    fn turn(&self, now: Duration) -> Option<bool> {
        let (kept, is_tight) = (self.kept.get(), self.is_tight());
        let has_changed = match is_tight {
            true => kept < self.max / 4 && self.tight_until.get() <= Some(now),
            false => kept > self.max / 2,
        };
        if !has_changed {
            return None;
        }
        self.tight_until.set((!is_tight).then_some(now + limits::TIGHT_AT_LEAST));
        Some(!is_tight)
    }
}

impl NativeConnection {
    /// Tells the core what is kept here for readers.
    #[inline]
    pub(super) fn account(&self) {
        let kept = if self.is_closed() { 0 } else { self.machine().buffered_len() };
        let before = self.kept.replace(kept);
        if kept != before {
            let core = self.core();
            core.share().set_unread_bytes(core.budget().change(before, kept));
        }
    }

    fn end_largest(&self) -> bool {
        let has_ended = self.machine().end_largest();
        self.account(); // its task drops the handler, and what waits for it
        has_ended
    }
}

impl ServerCore {
    /// Has the core look after its memory, if it is time to: when the readers that have just been
    /// woken have read. Those that keep up are not to be taken for those that do not.
    #[inline]
    pub(super) fn watch_budget(self: &Rc<Self>) {
        let budget = self.budget();
        if budget.needs_care(self.now()) && !budget.is_strained.replace(true) {
            self.relieve_soon();
        }
    }

    #[cold]
    fn relieve_soon(self: &Rc<Self>) {
        let core = Rc::clone(self);
        // It runs behind those who were woken before.
        spawn_named("unread messages", async move { core.relieve(core.now()) });
    }

    /// Ends the streams with most unread bytes while there are too many in all, and asks clients for
    /// less while there are many.
    fn relieve(&self, now: Duration) {
        let (budget, connections) = (self.budget(), self.connections().all());
        // Some may have ended streams since they were last looked at.
        connections.iter().for_each(|connection| connection.account());
        while budget.kept.get() > budget.max {
            let fullest = fullest(&connections);
            if !fullest.is_some_and(|connection| connection.end_largest()) {
                break; // what is kept belongs to no stream
            }
            self.share().count_exhausted();
        }
        if let Some(is_tight) = budget.turn(now) {
            connections.iter().for_each(|connection| connection.machine().set_tight(is_tight));
        }
        budget.is_strained.set(false);
        connections.iter().for_each(|connection| connection.wake());
    }
}

/// The connection whose largest stream is the largest of all.
fn fullest(connections: &[Rc<NativeConnection>]) -> Option<&NativeConnection> {
    let mut fullest = (0, None);
    for connection in connections {
        // No stream keeps more than its connection, so most are not looked through.
        if connection.kept.get() > fullest.0 {
            let largest = connection.machine().largest_len();
            if largest > fullest.0 {
                fullest = (largest, Some(&**connection));
            }
        }
    }
    fullest.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_asked_for_less_above_a_half_until_a_quarter_and_not_too_often() {
        let budget = Budget::new(1_000);
        let at = |ms| limits::TIGHT_AT_LEAST * ms / 1_000;
        let mut before = 0;
        let turns = [(500, 0), (501, 0), (300, 100), (200, 200), (200, 1_000), (600, 1_001)];
        let seen = turns.map(|(kept, ms)| {
            budget.change(std::mem::replace(&mut before, kept), kept);
            (budget.needs_care(at(ms)), budget.turn(at(ms)))
        });
        let nothing = (false, None);
        let (tight, relaxed) = ((true, Some(true)), (true, Some(false)));
        assert_eq!(seen, [nothing, tight, nothing, nothing, relaxed, tight]);
    }
}
