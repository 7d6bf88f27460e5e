//! Looking at shared memory for a while before sleeping.
//!
//! Waking a sleeping thread costs as much as a hundred messages. A core whose last waits were
//! short therefore looks for the next event itself; one whose waits are long sleeps at once, so an
//! idle core costs nothing.

use std::cell::Cell;
use std::time::Duration;

use super::registry;
use crate::affinity;
use crate::limits;

/// Decides whether a wait begins with a spin.
pub(crate) struct Spin {
    budget: Duration,
    /// The last wait ended soon enough for a spin to have caught it.
    worthwhile: Cell<bool>,
    /// Spins in a row that found nothing.
    misses: Cell<u32>,
    /// Waits left to go without a spin after too many misses.
    pause: Cell<u32>,
}

impl Spin {
    pub(crate) fn new(budget: Duration) -> Self {
        Self { budget, worthwhile: Cell::new(false), misses: Cell::new(0), pause: Cell::new(0) }
    }

    /// How long this wait may spin; `None`: sleep at once.
    pub(crate) fn allowance(&self) -> Option<Duration> {
        if self.budget.is_zero() || !self.worthwhile.get() || is_crowded() {
            return None;
        }
        if self.pause.get() > 0 {
            self.pause.set(self.pause.get() - 1);
            return None;
        }
        Some(self.budget)
    }

    /// A spin saw an event in time.
    pub(crate) fn hit(&self) {
        self.misses.set(0);
    }

    /// A spin ran out.
    pub(crate) fn missed(&self) {
        self.misses.set(self.misses.get() + 1);
        if self.misses.get() >= limits::SPIN_MISSES_MAX {
            self.misses.set(0);
            self.pause.set(limits::SPIN_PAUSE_WAITS);
        }
    }

    /// A sleep took this long. Falling asleep and waking up take about as long as a budget
    /// themselves, on this side and on the peer's, so a little longer still promises a hit.
    pub(crate) fn slept(&self, waited: Duration) {
        self.worthwhile.set(waited < self.budget * 2);
    }
}

/// Whether cores have to share a CPU: one that holds it while it waits then keeps another one from
/// its work. Cores come and go, so this is asked at each wait.
fn is_crowded() -> bool {
    registry::running_cores() > affinity::process_cpus()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_core_does_not_spin() {
        let spin = Spin::new(Duration::from_micros(50));
        assert_eq!(spin.allowance(), None);
        spin.slept(Duration::from_millis(1));
        assert_eq!(spin.allowance(), None);
    }

    #[test]
    fn a_busy_core_spins_until_its_waits_grow() {
        let spin = Spin::new(Duration::from_micros(50));
        spin.slept(Duration::from_micros(60));
        assert_eq!(spin.allowance(), Some(Duration::from_micros(50)));
        spin.slept(Duration::from_micros(101));
        assert_eq!(spin.allowance(), None);
    }

    #[test]
    fn spins_that_miss_again_and_again_pause() {
        let spin = Spin::new(Duration::from_micros(50));
        spin.slept(Duration::from_micros(90));
        for _ in 0..limits::SPIN_MISSES_MAX {
            assert!(spin.allowance().is_some());
            spin.missed();
        }
        for _ in 0..limits::SPIN_PAUSE_WAITS {
            assert_eq!(spin.allowance(), None);
        }
        assert!(spin.allowance().is_some());
    }

    #[test]
    fn a_budget_of_zero_never_spins() {
        let spin = Spin::new(Duration::ZERO);
        spin.slept(Duration::ZERO);
        assert_eq!(spin.allowance(), None);
    }
}
