//! The window of one stream, as its receiver keeps it (section 6).

use std::time::Duration;

use crate::limits::NATIVE_CREDIT_STEP_MAX;

/// How much the peer may send on one stream.
///
/// What it may send, what is owed to it and what waits behind a message that the reader has not
/// taken are always the size and the excess together.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Window {
    /// Bytes that the peer may send.
    granted: u32,
    /// Credit to be returned, together with more.
    owed: u32,
    /// Owed credit that is worth a frame: half the size, so that CREDITs are few, up to a bound.
    step: u32,
    /// Bytes that the peer may send when nothing waits here.
    size: u32,
    /// The size that the stream began with.
    start: u32,
    /// Bytes by which more was granted before the size fell; they are not returned.
    excess: u32,
    /// Bytes by which what the peer may send is below nothing, since all windows were [made
    /// smaller](Self::lower).
    debt: u32,
    /// Credit that came back so far, modulo 2³².
    returned: u32,
    /// When some was returned last; how much then, and how long after the time before.
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

    /// Takes what a frame costs; `false` when the peer may not send so much.
    #[inline]
    pub(crate) fn spend(&mut self, cost: u32) -> bool {
        let is_enough = cost <= self.granted;
        if is_enough {
            self.granted -= cost;
        }
        is_enough
    }

    /// Bytes have gone to the reader, or are those that it waits for.
    #[inline]
    pub(crate) fn add_pending(&mut self, cost: u32) {
        self.owed += cost;
    }

    /// Whether enough is owed to be returned.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed >= self.step
    }

    /// Returns what is owed: how much of it the peer is granted.
    pub(crate) fn give_back(&mut self, now: Duration) -> u32 {
        let back = std::mem::take(&mut self.owed);
        let kept = back.min(self.excess);
        self.excess -= kept;
        self.grant(back - kept);
        self.returned = self.returned.wrapping_add(back);
        // What comes in one turn of a caller has come since the turn before.
        let since = now.saturating_sub(self.returned_at);
        self.pace = match since.is_zero() {
            true => (self.pace.0.saturating_add(back), self.pace.1),
            false => (back, since),
        };
        self.returned_at = now;
        back - kept
    }

    /// How many bytes were returned last, and in which time they came.
    pub(crate) fn pace(&self) -> (u32, Duration) {
        self.pace
    }

    /// Bytes that the reader has had or waits for since the beginning, modulo 2³².
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

    /// Bytes that the peer may still send while a CREDIT is on its way to it.
    pub(crate) fn usable(&self) -> u32 {
        self.size - self.step
    }

    /// Bytes that the peer may hold above what the stream began with.
    pub(crate) fn grown(&self) -> u32 {
        (self.size + self.excess).saturating_sub(self.start)
    }

    /// Enlarges the window: how much more the peer is granted.
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

    /// Takes credit back, as HTTP/2 does for all streams at a time: the peer knows of it, and may have
    /// sent more before. The size is at least `by`.
    pub(crate) fn lower(&mut self, by: u32) {
        let now = by.min(self.granted);
        self.granted -= now;
        self.debt += by - now;
        self.size -= by;
        self.start -= by;
        self.step = step(self.size);
    }

    /// The opposite of [`lower`](Self::lower).
    pub(crate) fn raise(&mut self, by: u32) {
        self.size += by;
        self.start += by;
        self.step = step(self.size);
        self.grant(by);
    }

    /// Makes the window smaller. What was granted stays so, and is not granted again.
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
    fn credit_comes_back_by_halves_of_a_small_window_and_by_steps_of_a_large_one() {
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
    fn what_was_granted_before_a_window_fell_is_not_granted_again() {
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
    fn what_comes_in_one_turn_has_come_since_the_one_before() {
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
    fn a_window_may_fall_below_nothing_and_comes_back() {
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
