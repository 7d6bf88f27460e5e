//! Rows of calls that are timed together, and turns that have only so much time for calls.

use std::cell::Cell;
use std::time::Duration;

use crate::limits;

/// Calls that have ended since the clock was last looked at.
#[derive(Default)]
pub(super) struct Row {
    /// Whether calls that end now follow each other.
    pub(super) open: Cell<bool>,
    /// Their method.
    pub(super) place: Cell<usize>,
    pub(super) calls: Cell<u32>,
    pub(super) began: Cell<Duration>,
    /// How many there may be, at least one.
    pub(super) room: Cell<u32>,
    /// What a call of the last row of short calls took.
    pub(super) usual: Cell<Duration>,
}

/// What handlers that never waited have taken of a turn of the core.
#[derive(Default)]
pub(super) struct Turn {
    began: Cell<Duration>,
    used: Cell<Duration>,
    /// Until when time has been counted.
    counted: Cell<Duration>,
}

impl Turn {
    /// Counts what was done from `from` until `until` in the turn that began at `turn`. Calls overlap whose
    /// handlers begin when all that came with them is taken in, and no moment counts twice.
    pub(super) fn spend(&self, turn: Duration, from: Duration, until: Duration) {
        let took = until.saturating_sub(from.max(self.counted.replace(until)));
        let before =
            if self.began.replace(turn) == turn { self.used.get() } else { Duration::ZERO };
        self.used.set(before + took);
    }

    /// Whether the turn that began at `turn` has no time for more.
    #[inline]
    pub(super) fn is_spent(&self, turn: Duration) -> bool {
        self.used.get() >= limits::TURN_WORK && self.began.get() == turn
    }

    /// Whether any turn had none when this was last counted.
    #[inline]
    pub(super) fn was_spent(&self) -> bool {
        self.used.get() >= limits::TURN_WORK
    }
}

impl Row {
    /// What so many calls took that took so long together: so long each of so many, and so long
    /// each of the others.
    pub(super) fn shares(&self, calls: u32, took: Duration) -> [(Duration, u32); 2] {
        if took <= limits::TIMED_ALONE_FROM * calls {
            self.room.set((self.room.get() * 2).clamp(1, limits::TIMED_TOGETHER_MAX));
            self.usual.set(took / calls);
            return [(self.usual.get(), calls), (Duration::ZERO, 0)];
        }
        self.room.set(1);
        let (usual, others) = (self.usual.get(), calls - 1);
        [(usual, others), (took.saturating_sub(usual * others), 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn short_calls_share_their_time_in_rows_that_grow_up_to_a_bound() {
        let row = Row::default();
        let rooms = std::array::from_fn::<u32, 7, _>(|_| {
            let calls = row.room.get().max(1);
            assert_eq!(row.shares(calls, US * calls)[0], (US, calls));
            row.room.get()
        });
        assert_eq!(rooms, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn calls_that_were_admitted_together_take_no_more_of_a_turn_than_passes() {
        let (turn, spent) = (Turn::default(), limits::TURN_WORK.as_micros() as u32);
        (1..spent).for_each(|call| turn.spend(US, US, US * (1 + call)));
        assert!(!turn.is_spent(US), "each call counted from when all were admitted");
        turn.spend(US, US, US * (1 + spent));
        assert!(turn.is_spent(US) && !turn.is_spent(US * 2));
    }

    #[test]
    fn what_is_unusual_about_a_row_counts_for_one_call_and_the_next_are_timed_alone() {
        let row = Row::default();
        assert_eq!(row.shares(16, US * 16)[0], (US, 16));
        assert_eq!(row.shares(16, US * 1_015), [(US, 15), (US * 1_000, 1)]);
        assert_eq!(row.room.get(), 1);
        assert_eq!(row.shares(1, US * 1_000)[1], (US * 1_000, 1));
        assert_eq!(row.room.get(), 1);
    }
}
