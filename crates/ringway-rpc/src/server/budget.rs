//! The bytes that a core keeps for its connections, and what it does when they become too many.

use std::cell::Cell;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::spawn_named;
use ringway_wire::native::Side;

use super::connection::NativeConnection;
use super::core::ServerCore;
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
    is_strained: Cell<bool>,
}

/// One side of it.
#[derive(Debug)]
struct Account {
    max: usize,
    kept: Cell<usize>,
}

impl Account {
    /// What is kept now, when a connection that kept `before` keeps `after`.
    #[inline]
    fn change(&self, before: usize, after: usize) -> usize {
        let kept = self.kept.get() - before + after;
        self.kept.set(kept);
        kept
    }

    fn is_over(&self) -> bool {
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

    fn of(&self, side: Side) -> &Account {
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

    /// Whether [`ServerCore::relieve`] has something to do.
    #[inline]
    fn needs_care(&self, now: Duration) -> bool {
        let (kept, max) = (self.unread.kept.get(), self.unread.max);
        let is_unread_much = match self.tight_until.get() {
            None => kept > max / 2,
            Some(until) => kept > max || kept < max / 4 && now >= until,
        };
        is_unread_much || self.unsent.is_over() || self.has_no_room_for_spare()
    }

    /// Each time much is given back, since all connections are looked at for that.
    #[inline]
    fn has_no_room_for_spare(&self) -> bool {
        let (spare, unread) = (self.spare.get(), &self.unread);
        spare > unread.max / limits::RELIEF_SHARE && unread.kept.get() + spare > unread.max
    }

    /// Whether clients are to be asked for less, or no longer, if that has changed.
    fn turn(&self, now: Duration) -> Option<bool> {
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
}

impl NativeConnection {
    /// Tells the core what is kept here, and what was refused.
    #[inline]
    pub(super) fn account(&self) {
        let machine = self.machine();
        let unserved = (machine.refused(), machine.overdue());
        drop(machine);
        let before = self.unserved.replace(unserved);
        if unserved != before {
            self.core().share().add_unserved(unserved.0 - before.0, unserved.1 - before.1);
        }
        let kept = match self.is_closed() {
            true => Kept::default(),
            false => {
                let machine = self.machine();
                let (unread, unsent) = (Side::Unread, Side::Unsent);
                let queued = self.calls.borrow().queued_len();
                let (unread, unsent) =
                    (machine.kept_len(unread) + queued, machine.kept_len(unsent));
                Kept { unread, unsent, spare: machine.spare_len() }
            }
        };
        let before = self.kept.replace(kept);
        let (core, budget) = (self.core(), self.core().budget());
        if kept.unread != before.unread {
            core.share().set_unread_bytes(budget.unread.change(before.unread, kept.unread));
        }
        if kept.unsent != before.unsent {
            budget.unsent.change(before.unsent, kept.unsent);
        }
        budget.spare.set(budget.spare.get() - before.spare + kept.spare);
    }

    fn drop_spare(&self) {
        self.machine().drop_spare();
        self.account();
    }

    /// Bytes of the call that keeps most of them, be it in a queue.
    fn largest_len(&self, side: Side) -> usize {
        let running = self.machine().largest_len(side);
        let queued = || self.calls.borrow().largest_queued().map_or(0, |(len, _)| len);
        if side == Side::Unread { running.max(queued()) } else { running }
    }

    fn end_largest(&self, side: Side) -> bool {
        let largest = self.machine().largest_len(side);
        let has_shed = side == Side::Unread && self.shed_largest(largest);
        let has_ended = has_shed || self.machine().end_largest(side);
        self.account(); // its task drops the handler, and what waits for it
        has_ended
    }
}

/// What a connection keeps, as its core has last heard.
#[derive(Clone, Copy, Default)]
pub(super) struct Kept {
    unread: usize,
    unsent: usize,
    spare: usize,
}

impl Kept {
    fn of(self, side: Side) -> usize {
        match side {
            Side::Unread => self.unread,
            Side::Unsent => self.unsent,
        }
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

    /// Makes room where too much is kept, and asks clients for less while there is much.
    fn relieve(&self, now: Duration) {
        let (budget, connections) = (self.budget(), self.connections().all());
        // Some may have ended streams since they were last looked at.
        connections.iter().for_each(|connection| connection.account());
        if budget.has_no_room_for_spare() {
            connections.iter().for_each(|connection| connection.drop_spare());
        }
        for side in [Side::Unread, Side::Unsent] {
            if budget.of(side).is_over() {
                self.make_room(&connections, side);
            }
        }
        if let Some(is_tight) = budget.turn(now) {
            connections.iter().for_each(|connection| connection.machine().set_tight(is_tight));
        }
        budget.is_strained.set(false);
        connections.iter().for_each(|connection| connection.wake());
    }

    /// Ends the streams that keep most, then the connections. All connections are looked at for this,
    /// so a share of the room is made at once: by the time that is used up, much has come, and each
    /// byte of it has cost little.
    fn make_room(&self, connections: &[Rc<NativeConnection>], side: Side) {
        let account = self.budget().of(side);
        let enough = account.max - account.max / limits::RELIEF_SHARE;
        let kept = |&(_, at): &(usize, usize)| connections[at].kept.get().of(side) > 0;
        let places = (0..connections.len()).map(|at| (0, at)).filter(kept);
        let mut largest: BinaryHeap<(usize, usize)> =
            places.map(|(_, at)| (connections[at].largest_len(side), at)).collect();
        while account.kept.get() > enough
            && let Some((_, at)) = largest.pop()
        {
            let connection = &connections[at];
            if connection.end_largest(side) {
                self.share().count_exhausted();
                largest.push((connection.largest_len(side), at));
            }
        }
        if account.is_over() {
            self.end_connections(connections, side);
        }
        if side == Side::Unread {
            // Of the streams that were ended.
            connections.iter().for_each(|connection| connection.drop_spare());
        }
    }

    /// What is kept belongs to no stream: halves of frames, and answers that nobody reads.
    #[cold]
    fn end_connections(&self, connections: &[Rc<NativeConnection>], side: Side) {
        let mut fullest: BinaryHeap<(usize, usize)> =
            (0..connections.len()).map(|at| (connections[at].kept.get().of(side), at)).collect();
        let mut kept = self.budget().of(side).kept.get();
        while kept > self.budget().of(side).max
            && let Some((size, at)) = fullest.pop()
        {
            kept -= size;
            connections[at].end();
            self.share().count_exhausted();
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
