//! The receive window of one stream (section 6).

use std::time::Duration;

use crate::limits::NATIVE_CREDIT_STEP_MAX;

/// The credit that the peer has on one stream, as its receiver counts it.
///
/// Granted, pending and unread bytes always add up to the size and the excess (plus the debt of a
/// lowered window).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Window {
    /// Bytes that the peer may send.
    granted: u32,
    /// Pending credit, to be returned together with more.
    owed: u32,
    /// Pending credit that is worth a CREDIT frame: half the size, up to a limit, so that CREDITs
    /// are few.
    step: u32,
    /// Bytes that the peer may send when nothing is unread.
    size: u32,
    /// The size with which the stream started.
    start: u32,
    /// Bytes granted before the window shrank, which are not granted again.
    excess: u32,
    /// Bytes by which the peer's credit is negative, after all windows were [lowered](Self::lower).
    debt: u32,
    /// Total credit returned so far, modulo 2³².
    returned: u32,
    /// When credit was returned last; how much, and how long after the time before.
    returned_at: Duration,
    pace: (u32, Duration),
}

impl Window {
    pub(crate) fn new(size: u32) -> Self {
        let step = step(size);
        Self { granted: size, step, size, start: size, ..Self::default() }
    }

    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Takes the cost of a frame from the credit; `false` if the credit does not suffice.
    #[inline]
    pub(crate) fn spend(&mut self, cost: u32) -> bool {
        let is_enough = cost <= self.granted;
        if is_enough {
            self.granted -= cost;
        }
        is_enough
    }

    /// Adds credit for bytes that the reader has taken, or for the message that it takes next.
    #[inline]
    pub(crate) fn add_pending(&mut self, cost: u32) {
        self.owed += cost;
    }

    /// Whether enough credit is pending to be returned.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed >= self.step
    }

    /// Returns all pending credit, and returns how much of it the peer is granted.
    pub(crate) fn give_back(&mut self, now: Duration) -> u32 {
        let back = std::mem::take(&mut self.owed);
        let kept = back.min(self.excess);
        self.excess -= kept;
        self.grant(back - kept);
        self.returned = self.returned.wrapping_add(back);
        // Bytes that arrive within one turn of the caller have arrived since the turn before.
        let since = now.saturating_sub(self.returned_at);
        self.pace = match since.is_zero() {
            true => (self.pace.0.saturating_add(back), self.pace.1),
            false => (back, since),
        };
        self.returned_at = now;
        back - kept
    }

    /// How many bytes were returned last, and the time within which they arrived.
    pub(crate) fn pace(&self) -> (u32, Duration) {
        self.pace
    }

    /// Bytes delivered since the start, including the message the reader takes next, modulo 2³².
    pub(crate) fn delivered(&self) -> u32 {
        self.returned.wrapping_add(self.owed)
    }

    /// Bytes that wait behind the message in front of the reader.
    pub(crate) fn waiting(&self) -> u32 {
        self.size + self.excess + self.debt - self.granted - self.owed
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Bytes that the peer may still send while a CREDIT is in flight.
    pub(crate) fn usable(&self) -> u32 {
        self.size - self.step
    }

    /// Bytes by which the window exceeds its initial size.
    pub(crate) fn grown(&self) -> u32 {
        (self.size + self.excess).saturating_sub(self.start)
    }

    /// Enlarges the window, and returns how much more the peer is granted.
    pub(crate) fn grow(&mut self, by: u32) -> u32 {
        let kept = by.min(self.excess);
        self.excess -= kept;
        self.size += by;
        self.grant(by - kept);
        self.step = step(self.size);
        by - kept
    }

    fn grant(&mut self, by: u32) {
        let paid = by.min(self.debt);
        self.debt -= paid;
        self.granted += by - paid;
    }

    /// Takes credit back, as an HTTP/2 SETTINGS does for all streams at once. The peer may have
    /// sent more before it reads them, so its credit may become negative. The size must be at least
    /// `by`.
    pub(crate) fn lower(&mut self, by: u32) {
        let now = by.min(self.granted);
        self.granted -= now;
        self.debt += by - now;
        self.size -= by;
        self.start -= by;
        self.step = step(self.size);
    }

    /// Gives credit back, the inverse of [`lower`](Self::lower).
    pub(crate) fn raise(&mut self, by: u32) {
        self.size += by;
        self.start += by;
        self.step = step(self.size);
        self.grant(by);
    }

    /// Shrinks the window. Credit already granted stays valid, and is not granted again.
    pub(crate) fn shrink_to(&mut self, size: u32) {
        if size < self.size {
            self.excess += self.size - size;
            self.size = size;
            self.step = step(size);
        }
    }
}

fn step(size: u32) -> u32 {
    (size / 2).min(NATIVE_CREDIT_STEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn credit_returns_by_half_a_small_window_and_by_fixed_steps_of_a_large_one() {
        for (size, step) in [(65_536, 32_768), (1 << 20, 1 << 19), (16 << 20, 1 << 19)] {
            let mut window = Window::new(size);
            assert!(window.spend(step));
            window.add_pending(step - 1);
            assert!(!window.is_due());
            window.add_pending(1);
            assert!(window.is_due());
            assert_eq!(window.give_back(NOW), step);
            assert_eq!((window.granted(), window.delivered()), (size, step));
        }
    }

    #[test]
    fn credit_granted_before_a_window_shrank_is_not_granted_again() {
        let mut window = Window::new(1 << 20);
        assert_eq!(window.grow(1 << 20), 1 << 20);
        assert_eq!(window.grown(), 1 << 20);
        window.shrink_to(65_536);
        assert_eq!((window.size(), window.granted()), (65_536, 2 << 20));
        assert!(window.spend(2 << 20) && !window.spend(1), "as the peer was told");
        assert_eq!(window.waiting(), 2 << 20);
        let mut granted = 0;
        for _ in 0..32 {
            window.add_pending(65_536);
            granted += window.give_back(NOW);
        }
        assert_eq!((granted, window.granted(), window.waiting()), (65_536, 65_536, 0));
        assert_eq!(window.grown(), 0);
    }

    #[test]
    fn bytes_of_one_turn_count_as_arrived_since_the_turn_before() {
        let mut window = Window::new(1 << 20);
        let at = Duration::from_millis;
        for (now, pace) in [(5, (10, at(5))), (7, (10, at(2))), (7, (20, at(2))), (8, (10, at(1)))]
        {
            window.add_pending(10);
            window.give_back(at(now));
            assert_eq!(window.pace(), pace);
        }
    }

    #[test]
    fn a_window_may_become_negative_and_recovers() {
        let mut window = Window::new(1 << 20);
        assert!(window.spend(1_000_000));
        window.add_pending(400_000);
        window.lower((1 << 20) - 65_535);
        assert!(!window.spend(1) && window.is_due());
        assert_eq!((window.size(), window.grown(), window.waiting()), (65_535, 0, 600_000));
        assert_eq!(window.give_back(NOW), 400_000, "all of it is said to the peer");
        assert_eq!(window.granted(), 0, "which may still send nothing");
        window.add_pending(600_000);
        assert_eq!(window.give_back(NOW), 600_000);
        assert_eq!((window.granted(), window.waiting()), (65_535, 0));
        window.raise(1_000);
        assert_eq!((window.granted(), window.size(), window.grown()), (66_535, 66_535, 0));
    }

    #[test]
    fn a_window_that_grows_again_takes_the_excess_first() {
        let mut window = Window::new(1 << 20);
        window.shrink_to(65_536);
        let back = (1 << 20) - 65_536;
        assert_eq!(window.grow(back), 0, "the peer has all of it");
        assert_eq!(window.grow(1 << 20), 1 << 20);
        assert_eq!((window.granted(), window.grown()), (2 << 20, 1 << 20));
    }
}
