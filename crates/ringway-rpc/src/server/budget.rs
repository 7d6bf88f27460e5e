//! The bytes that a core keeps for its connections, and their limits.

use std::cell::Cell;
use std::time::Duration;

use ringway_wire::native::Side;

use crate::limits;

/// The bytes that all connections of a core keep, and how many they may keep.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes that clients have sent and no handler has read.
    unread: Usage,
    /// Bytes that handlers have sent and clients have not taken.
    unsent: Usage,
    /// Buffers that connections keep from ended streams for the next ones. They count against the limit
    /// of unread bytes and are freed first.
    spare: Cell<usize>,
    /// The earliest time at which clients may send more again, while they are asked to send less.
    over_soft_limit_until: Cell<Option<Duration>>,
    /// Whether connections receive nothing because memory is about to be shed.
    pub(super) is_receiving_paused: Cell<bool>,
    /// The most bytes that were kept since memory was last given back.
    peak: Cell<usize>,
}

/// The bytes kept in one direction, and their limit.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) max: usize,
    pub(super) kept: Cell<usize>,
}

impl Usage {
    /// Updates the total when a connection that kept `before` keeps `after`, and returns it.
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
    /// A budget for `unread_max` bytes that handlers have not read.
    pub(super) fn new(unread_max: usize) -> Self {
        let usage = |max| Usage { max, kept: Cell::new(0) };
        let unsent_max = unread_max.saturating_mul(limits::UNSENT_TO_UNREAD);
        let (unread, unsent) = (usage(unread_max), usage(unsent_max));
        let (spare, over_soft_limit_until, is_receiving_paused, peak) = Default::default();
        Self { unread, unsent, spare, over_soft_limit_until, is_receiving_paused, peak }
    }

    pub(super) fn of(&self, side: Side) -> &Usage {
        match side {
            Side::Unread => &self.unread,
            Side::Unsent => &self.unsent,
        }
    }

    /// Whether connections receive nothing until memory has been shed.
    #[inline]
    pub(super) fn is_receiving_paused(&self) -> bool {
        self.is_receiving_paused.get()
    }

    /// Whether usage is above the soft limit, so that clients are asked to send less.
    pub(super) fn is_over_soft_limit(&self) -> bool {
        self.over_soft_limit_until.get().is_some()
    }

    /// Whether the core has to shed memory or to change what it asks of clients.
    #[inline]
    pub(super) fn needs_attention(&self, now: Duration) -> bool {
        let (kept, max) = (self.unread.kept.get(), self.unread.max);
        let is_unread_much = match self.over_soft_limit_until.get() {
            None => kept > max / 2,
            Some(until) => kept > max || kept < max / 4 && now >= until,
        };
        is_unread_much || self.unsent.is_over() || self.has_no_room_for_spare()
    }

    /// Whether spare buffers have to be freed. Much is freed each time, since that looks at all
    /// connections.
    #[inline]
    pub(super) fn has_no_room_for_spare(&self) -> bool {
        let (spare, unread) = (self.spare.get(), &self.unread);
        spare > unread.max / limits::SHED_SHARE && unread.kept.get() + spare > unread.max
    }

    /// All bytes that are kept.
    fn kept(&self) -> usize {
        self.unread.kept.get() + self.unsent.kept.get()
    }

    /// Whether so many more bytes may be kept for handlers.
    #[inline]
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.unread.kept.get().saturating_add(bytes) <= self.unread.max
    }

    /// Whether messages may be decompressed for requests over HTTP.
    pub(super) fn may_inflate(&self) -> bool {
        self.unread.kept.get() <= self.unread.max / limits::INFLATED_SHARE
    }

    /// Whether much was kept and most of it is not any more.
    #[inline]
    pub(super) fn is_wave_over(&self) -> bool {
        let peak = self.peak.get();
        peak >= limits::WAVE_BYTES_MIN && self.kept() <= peak / limits::WAVE_IS_OVER_SHARE
    }

    /// Begins to look for the next wave.
    pub(super) fn end_wave(&self) {
        self.peak.set(self.kept());
    }

    /// Whether clients are to send less (true) or as usual (false), if that has changed.
    pub(super) fn soft_limit_change(&self, now: Duration) -> Option<bool> {
        let (kept, max, is_over_soft_limit) =
            (self.unread.kept.get(), self.unread.max, self.is_over_soft_limit());
        let has_changed = match is_over_soft_limit {
            true => kept < max / 4 && self.over_soft_limit_until.get() <= Some(now),
            false => kept > max / 2,
        };
        if !has_changed {
            return None;
        }
        self.over_soft_limit_until
            .set((!is_over_soft_limit).then_some(now + limits::SEND_LESS_MIN));
        Some(!is_over_soft_limit)
    }

    /// Updates the totals when a connection that kept `before` keeps `after`. Returns the unread bytes if
    /// they have changed.
    #[inline]
    pub(super) fn change(&self, before: Kept, after: Kept) -> Option<usize> {
        if after.unsent != before.unsent {
            self.unsent.change(before.unsent, after.unsent);
        }
        self.spare.set(self.spare.get() - before.spare + after.spare);
        self.peak.set(self.peak.get().max(self.kept()));
        let has_changed = after.unread != before.unread;
        has_changed.then(|| self.unread.change(before.unread, after.unread))
    }
}

/// The bytes that a connection keeps, as last reported to its core.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kept {
    pub(super) unread: usize,
    pub(super) unsent: usize,
    pub(super) spare: usize,
    /// Requests that have not begun, each of which counts as a call that waits.
    pub(super) unbegun: usize,
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
            (budget.has_no_room_for_spare(), budget.needs_attention(Duration::ZERO))
        };
        let seen =
            [(0, 800), (0, 801), (300, 500), (300, 501), (800, 100)].map(|(u, s)| goes(u, s));
        let (yes, no) = ((true, true), (false, false));
        assert_eq!(seen, [no, yes, no, yes, (false, true)]);
    }

    #[test]
    fn a_wave_is_over_once_when_most_of_what_was_kept_is_gone() {
        let budget = Budget::new(usize::MAX);
        let most = limits::WAVE_BYTES_MIN;
        let mut before = Kept::default();
        let mut keep = |unread| {
            let after = Kept { unread, ..Kept::default() };
            budget.change(std::mem::replace(&mut before, after), after);
            let is_over = budget.is_wave_over();
            if is_over {
                budget.end_wave();
            }
            is_over
        };
        let seen = [most - 1, 0, most, most / 4 + 1, most / 4, 0, most, 0].map(&mut keep);
        assert_eq!(seen, [false, false, false, false, true, false, false, true]);
    }

    #[test]
    fn clients_are_asked_for_less_above_a_half_until_a_quarter_and_not_too_often() {
        let budget = Budget::new(1_000);
        let at = |ms| limits::SEND_LESS_MIN * ms / 1_000;
        let mut before = 0;
        let turns = [(500, 0), (501, 0), (300, 100), (200, 200), (200, 1_000), (600, 1_001)];
        let seen = turns.map(|(kept, ms)| {
            budget.unread.change(std::mem::replace(&mut before, kept), kept);
            (budget.needs_attention(at(ms)), budget.soft_limit_change(at(ms)))
        });
        let nothing = (false, None);
        let (tight, relaxed) = ((true, Some(true)), (true, Some(false)));
        assert_eq!(seen, [nothing, tight, nothing, nothing, relaxed, tight]);
    }
}
