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
    pub(super) began: Cell<Duration>,
    pub(super) used: Cell<Duration>,
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
    fn what_is_unusual_about_a_row_counts_for_one_call_and_the_next_are_timed_alone() {
        let row = Row::default();
        assert_eq!(row.shares(16, US * 16)[0], (US, 16));
        assert_eq!(row.shares(16, US * 1_015), [(US, 15), (US * 1_000, 1)]);
        assert_eq!(row.room.get(), 1);
        assert_eq!(row.shares(1, US * 1_000)[1], (US * 1_000, 1));
        assert_eq!(row.room.get(), 1);
    }
}
