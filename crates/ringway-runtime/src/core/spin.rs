//! Spinning for a while before sleeping.
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
    /// Whether the last wait was so short that a spin would have caught its event.
    worthwhile: Cell<bool>,
    /// Number of consecutive spins that found nothing.
    misses: Cell<u32>,
    /// Number of waits without a spin that remain after too many misses.
    pause: Cell<u32>,
}

impl Spin {
    pub(crate) fn new(budget: Duration) -> Self {
        Self { budget, worthwhile: Cell::new(false), misses: Cell::new(0), pause: Cell::new(0) }
    }

    /// How long this wait may spin; `None` means to sleep at once.
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

    /// Records that a spin saw an event in time.
    pub(crate) fn hit(&self) {
        self.misses.set(0);
    }

    /// Records that a spin ran out.
    pub(crate) fn missed(&self) {
        self.misses.set(self.misses.get() + 1);
        if self.misses.get() >= limits::SPIN_MISSES_MAX {
            self.misses.set(0);
            self.pause.set(limits::SPIN_PAUSE_WAITS);
        }
    }

    /// Records the duration of a sleep. Falling asleep and waking up take about a budget on both
    /// sides, so a wait of up to twice the budget still promises a hit.
    pub(crate) fn slept(&self, waited: Duration) {
        self.worthwhile.set(waited < self.budget * 2);
    }
}

/// Whether cores share CPUs: then one that spins keeps another from its work. Cores come and go, so
/// this is checked at each wait.
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
    fn spinning_pauses_after_too_many_misses() {
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
