//! Batches of short calls that are timed together, and the time for calls within one turn.

use std::cell::Cell;
use std::time::Duration;

use crate::limits;

/// Short calls that have ended since the clock was last read.
#[derive(Default)]
pub(super) struct TimedBatch {
    /// Whether calls that end now are timed together.
    pub(super) open: Cell<bool>,
    /// The index of the method that all calls of the batch belong to.
    pub(super) method_index: Cell<usize>,
    pub(super) calls: Cell<u32>,
    pub(super) began: Cell<Duration>,
    /// The largest number of calls in the next batch; 0 counts as 1.
    pub(super) size_max: Cell<u32>,
    /// The mean duration of a call in the last batch of short calls.
    pub(super) usual: Cell<Duration>,
}

/// Time that handlers have used in the current turn of the core without waiting.
#[derive(Default)]
pub(super) struct Turn {
    began: Cell<Duration>,
    used: Cell<Duration>,
    /// The time up to which work has been counted.
    counted: Cell<Duration>,
}

impl Turn {
    /// Counts the work from `from` until `until` in the turn that began at `turn`. Handlers that were
    /// deferred overlap with the calls before them; no moment counts twice.
    pub(super) fn spend(&self, turn: Duration, from: Duration, until: Duration) {
        let took = until.saturating_sub(from.max(self.counted.replace(until)));
        let before =
            if self.began.replace(turn) == turn { self.used.get() } else { Duration::ZERO };
        self.used.set(before + took);
    }

    /// Whether the turn that began at `turn` has used up its time for calls.
    #[inline]
    pub(super) fn is_spent(&self, turn: Duration) -> bool {
        self.used.get() >= limits::TURN_WORK && self.began.get() == turn
    }

    /// Whether the last turn that was counted used up its time.
    #[inline]
    pub(super) fn was_spent(&self) -> bool {
        self.used.get() >= limits::TURN_WORK
    }
}

impl TimedBatch {
    /// Divides the duration of a batch among its calls, as two groups of (duration of each call, number
    /// of calls). In a batch that took unusually long, one call gets all the excess.
    pub(super) fn shares(&self, calls: u32, took: Duration) -> [(Duration, u32); 2] {
        if took <= limits::TIMED_ALONE_FROM * calls {
            self.size_max.set((self.size_max.get() * 2).clamp(1, limits::TIMED_TOGETHER_MAX));
            self.usual.set(took / calls);
            return [(self.usual.get(), calls), (Duration::ZERO, 0)];
        }
        self.size_max.set(1);
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
        let batch = TimedBatch::default();
        let sizes = std::array::from_fn::<u32, 7, _>(|_| {
            let calls = batch.size_max.get().max(1);
            assert_eq!(batch.shares(calls, US * calls)[0], (US, calls));
            batch.size_max.get()
        });
        assert_eq!(sizes, [1, 2, 4, 8, 16, 16, 16]);
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
    fn what_is_unusual_about_a_batch_counts_for_one_call_and_the_next_are_timed_alone() {
        let batch = TimedBatch::default();
        assert_eq!(batch.shares(16, US * 16)[0], (US, 16));
        assert_eq!(batch.shares(16, US * 1_015), [(US, 15), (US * 1_000, 1)]);
        assert_eq!(batch.size_max.get(), 1);
        assert_eq!(batch.shares(1, US * 1_000)[1], (US * 1_000, 1));
        assert_eq!(batch.size_max.get(), 1);
    }
}
