//! The bytes that a core keeps for its connections.

use std::cell::Cell;
use std::time::Duration;

use ringway_wire::native::Side;

use crate::limits;

/// What all connections of a core keep, of what they may.
#[derive(Debug)]
pub(super) struct Budget {
    /// What clients have sent and no handler has read.
    unread: Account,
    /// What handlers have said and clients have not taken.
    unsent: Account,
    /// Bytes of streams that are over, which connections keep for those to come. They take up what
    /// clients may use, and are the first to go.
    spare: Cell<usize>,
    /// Until when clients are asked for less at least, if they are.
    tight_until: Cell<Option<Duration>>,
    /// Something is about to be done: nothing more is received until then.
    pub(super) is_strained: Cell<bool>,
}

/// One side of it.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) max: usize,
    pub(super) kept: Cell<usize>,
}

impl Account {
    /// What is kept now, when a connection that kept `before` keeps `after`.
    #[inline]
    fn change(&self, before: usize, after: usize) -> usize {
        let kept = self.kept.get() - before + after;
        self.kept.set(kept);
        kept
    }

    pub(super) fn is_over(&self) -> bool {
        self.kept.get() > self.max
    }
}

impl Budget {
    /// For so many bytes that handlers have not read.
    pub(super) fn new(unread_max: usize) -> Self {
        let account = |max| Account { max, kept: Cell::new(0) };
        let unsent_max = unread_max.saturating_mul(limits::UNSENT_TO_UNREAD);
        let (unread, unsent) = (account(unread_max), account(unsent_max));
        let (spare, tight_until, is_strained) = Default::default();
        Self { unread, unsent, spare, tight_until, is_strained }
    }

    pub(super) fn of(&self, side: Side) -> &Account {
        match side {
            Side::Unread => &self.unread,
            Side::Unsent => &self.unsent,
        }
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

    /// Whether the core has something to do.
    #[inline]
    pub(super) fn needs_care(&self, now: Duration) -> bool {
        let (kept, max) = (self.unread.kept.get(), self.unread.max);
        let is_unread_much = match self.tight_until.get() {
            None => kept > max / 2,
            Some(until) => kept > max || kept < max / 4 && now >= until,
        };
        is_unread_much || self.unsent.is_over() || self.has_no_room_for_spare()
    }

    /// Each time much is given back, since all connections are looked at for that.
    #[inline]
    pub(super) fn has_no_room_for_spare(&self) -> bool {
        let (spare, unread) = (self.spare.get(), &self.unread);
        spare > unread.max / limits::RELIEF_SHARE && unread.kept.get() + spare > unread.max
    }

    /// Whether clients are to be asked for less, or no longer, if that has changed.
    pub(super) fn turn(&self, now: Duration) -> Option<bool> {
        let (kept, max, is_tight) = (self.unread.kept.get(), self.unread.max, self.is_tight());
        let has_changed = match is_tight {
            true => kept < max / 4 && self.tight_until.get() <= Some(now),
            false => kept > max / 2,
        };
        if !has_changed {
            return None;
        }
        self.tight_until.set((!is_tight).then_some(now + limits::TIGHT_AT_LEAST));
        Some(!is_tight)
    }

    /// A connection that kept `before` keeps `after`. All bytes that are unread now, if that has changed.
    #[inline]
    pub(super) fn change(&self, before: Kept, after: Kept) -> Option<usize> {
        if after.unsent != before.unsent {
            self.unsent.change(before.unsent, after.unsent);
        }
        self.spare.set(self.spare.get() - before.spare + after.spare);
        let has_changed = after.unread != before.unread;
        has_changed.then(|| self.unread.change(before.unread, after.unread))
    }
}

/// What a connection keeps, as its core has last heard.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kept {
    pub(super) unread: usize,
    pub(super) unsent: usize,
    pub(super) spare: usize,
}

impl Kept {
    pub(super) fn of(self, side: Side) -> usize {
        match side {
            Side::Unread => self.unread,
            Side::Unsent => self.unsent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_memory_goes_by_large_parts_where_there_is_no_room_for_it() {
        let budget = Budget::new(800);
        let goes = |unread, spare| {
            budget.unread.kept.set(unread);
            budget.spare.set(spare);
            (budget.has_no_room_for_spare(), budget.needs_care(Duration::ZERO))
        };
        let seen =
            [(0, 800), (0, 801), (300, 500), (300, 501), (800, 100)].map(|(u, s)| goes(u, s));
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(seen, [no, yes, no, yes, (false, true)]);
    }

    #[test]
    fn clients_are_asked_for_less_above_a_half_until_a_quarter_and_not_too_often() {
        let budget = Budget::new(1_000);
        let at = |ms| limits::TIGHT_AT_LEAST * ms / 1_000;
        let mut before = 0;
        let turns = [(500, 0), (501, 0), (300, 100), (200, 200), (200, 1_000), (600, 1_001)];
        let seen = turns.map(|(kept, ms)| {
            budget.unread.change(std::mem::replace(&mut before, kept), kept);
            (budget.needs_care(at(ms)), budget.turn(at(ms)))
        });
        let nothing = (false, None);
        let (tight, relaxed) = ((true, Some(true)), (true, Some(false)));
        assert_eq!(seen, [nothing, tight, nothing, nothing, relaxed, tight]);
    }
}
