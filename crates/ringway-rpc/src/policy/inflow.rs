//! Tells an overloaded queue from one that is only long.

use std::time::Duration;

use crate::limits;

/// How fast waiters come and are served. A burst makes a queue long, and so do many callers that wait for their answers
/// before they call again; both are served in the end. Where more go on coming than are served, most have to be refused,
/// and the sooner the better.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inflow {
    /// The start of the measuring window, and how many came and were served in it.
    began: Duration,
    came: u32,
    served: u32,
    /// The time for each that was served in the window before, and the end of that.
    each: Duration,
    measured: Duration,
    /// Windows in a row in which no fewer have come than were served, and far more.
    fed: u32,
    flooded: u32,
}

impl Inflow {
    /// Starts a window, because the queue was empty until now.
    pub(crate) fn begin(&mut self, now: Duration) {
        let is_old = now.saturating_sub(self.measured) > limits::FLOOD_REMEMBERED;
        let each = if is_old { Duration::ZERO } else { self.each };
        *self = Self { began: now, each, measured: self.measured, ..Self::default() };
    }

    /// Notes that one waiter has come.
    pub(crate) fn came(&mut self) {
        self.came = self.came.saturating_add(1);
    }

    /// Notes that one waiter was served.
    pub(crate) fn served(&mut self, now: Duration) {
        self.served = self.served.saturating_add(1);
        let length = now.saturating_sub(self.began);
        if length < limits::FLOOD_WINDOW || self.served < limits::FLOOD_SERVED_MIN {
            return;
        }
        let next = |windows: u32, percent: u64| {
            let is_more = u64::from(self.came) * 100 >= u64::from(self.served) * percent;
            if is_more { windows.saturating_add(1) } else { 0 }
        };
        let (fed, flooded) = (next(self.fed, 100), next(self.flooded, limits::FLOOD_PERCENT));
        let each = length / self.served;
        *self = Self { began: now, came: 0, served: 0, each, measured: now, fed, flooded };
    }

    /// Whether far more came in the last window than were served.
    pub(crate) fn is_flood(&self) -> bool {
        self.flooded > 0
    }

    /// Whether the queue is overloaded by `waiting` waiters of whom the newest has `patience`.
    pub(crate) fn is_too_much(&self, waiting: usize, patience: Duration) -> bool {
        let wait = self.each.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
        let is_flooded = self.flooded >= limits::FLOOD_WINDOWS;
        wait > patience / limits::PATIENCE_PART || is_flooded && wait > limits::OVERLOADED_WAIT
    }

    /// How many waiters an overloaded queue keeps, however long they have waited: while more go on coming, those that keep
    /// the servers busy; otherwise all that are served with enough of their `patience` left.
    pub(crate) fn keeps(&self, patience: Duration) -> usize {
        let wait = match self.fed >= limits::FLOOD_WINDOWS {
            true => limits::OVERLOADED_WAIT,
            false => patience / limits::PATIENCE_PART,
        };
        let kept = wait.as_nanos() / self.each.as_nanos().max(1);
        usize::try_from(kept).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Serves one waiter each ms for a second, while `comes` tells how many come; the first ms of overload, and how many
    /// are kept in the end.
    fn overload(comes: impl Fn(u32) -> u32) -> (Option<u32>, usize) {
        let (mut inflow, mut waiting, mut first) = (Inflow::default(), 0_usize, None);
        inflow.begin(Duration::ZERO);
        for ms in 1..=1_000 {
            (0..comes(ms)).for_each(|_| inflow.came());
            waiting = (waiting + comes(ms) as usize).saturating_sub(1);
            inflow.served(ms * MS);
            if first.is_none() && inflow.is_too_much(waiting, PATIENCE) {
                first = Some(ms);
            }
        }
        (first, inflow.keeps(PATIENCE))
    }

    #[test]
    fn a_flood_is_overload_and_neither_a_burst_nor_callers_in_turn_are() {
        assert_eq!(overload(|_| 4), (Some(50), 50));
        assert_eq!(overload(|_| 2), (Some(51), 50));
        assert_eq!(overload(|ms| if ms == 1 { 2_000 } else { 0 }), (None, 2_500), "a burst");
        assert_eq!(overload(|ms| if ms == 1 { 2_000 } else { 1 }).0, None, "callers in turn");
        assert_eq!(overload(|ms| if ms % 100 == 1 { 100 } else { 0 }).0, None, "all are served");
    }

    #[test]
    fn what_cannot_be_served_in_time_is_overload_of_which_a_part_is_kept() {
        assert_eq!(overload(|ms| if ms == 1 { 9_000 } else { 0 }), (Some(25), 2_500), "a burst");
        assert_eq!(overload(|ms| if ms == 1 { 9_000 } else { 1 }), (Some(25), 50), "goes on");
    }

    #[test]
    fn nothing_is_overload_before_enough_were_served() {
        let mut inflow = Inflow::default();
        inflow.begin(Duration::ZERO);
        for served in 1..limits::FLOOD_SERVED_MIN {
            (0..1_000).for_each(|_| inflow.came());
            inflow.served(served * 1_000 * MS);
        }
        assert!(!inflow.is_too_much(1_000_000, PATIENCE));
        assert_eq!(Inflow::default().keeps(PATIENCE), 2_500_000_000);
    }
}
