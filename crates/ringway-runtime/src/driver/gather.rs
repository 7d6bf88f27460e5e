//! How many completions a wait should gather before it ends.
//!
//! A loop that is a little faster than its peers wakes for one or two messages at a time and pays a
//! whole turn, and its peer a wake-up, for each. When many connections are active it is cheaper
//! for both sides to sleep until a share of them has something. The share is a quarter: while that
//! is gathered here, the rest keeps the peers busy, so nobody waits for anybody.
//!
//! A gather that does not fill up within its bound ends with what there is, and no further one is
//! tried before activity has been counted anew: a lone message is late by that bound at most, once
//! in [`limits::GATHER_EPOCH`] messages.

use crate::limits;

/// Counts the connections that are active.
pub(crate) struct Gather {
    epoch: u32,
    receives: u32,
    /// Connections that received in this epoch.
    active: u32,
    /// The same of the last whole epoch.
    recently_active: u32,
}

impl Gather {
    pub(crate) fn new() -> Self {
        Self { epoch: 1, receives: 0, active: 0, recently_active: 0 }
    }

    /// Notes a receive of a connection whose last epoch is `seen`.
    #[inline]
    pub(crate) fn received(&mut self, seen: &mut u32) {
        if *seen != self.epoch {
            *seen = self.epoch;
            self.active += 1;
        }
        self.receives += 1;
        if self.receives == limits::GATHER_EPOCH {
            self.recently_active = self.active;
            self.receives = 0;
            self.active = 0;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// Receives to wait for; at least one.
    pub(crate) fn goal(&self) -> u32 {
        (self.recently_active / 4).clamp(1, limits::GATHER_MAX)
    }

    /// A wait brought fewer receives than its goal.
    pub(crate) fn missed(&mut self) {
        self.recently_active = 0;
        self.active = 0;
        self.receives = 0;
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(gather: &mut Gather, seen: &mut [u32], count: u32) {
        for nth in 0..count {
            let connection = nth as usize % seen.len();
            gather.received(&mut seen[connection]);
        }
    }

    #[test]
    fn the_goal_is_a_quarter_of_the_active_connections() {
        let mut gather = Gather::new();
        assert_eq!(gather.goal(), 1);
        receive(&mut gather, &mut [0; 40], limits::GATHER_EPOCH);
        assert_eq!(gather.goal(), 10);
        receive(&mut gather, &mut vec![0; 200], limits::GATHER_EPOCH);
        assert_eq!(gather.goal(), limits::GATHER_MAX);
    }

    #[test]
    fn few_connections_are_not_gathered() {
        let mut gather = Gather::new();
        receive(&mut gather, &mut [0; 4], limits::GATHER_EPOCH);
        assert_eq!(gather.goal(), 1);
    }

    #[test]
    fn a_gather_that_does_not_fill_up_is_not_tried_again_at_once() {
        let mut gather = Gather::new();
        let mut seen = [0; 40];
        receive(&mut gather, &mut seen, limits::GATHER_EPOCH);
        gather.missed();
        assert_eq!(gather.goal(), 1);
        receive(&mut gather, &mut seen, limits::GATHER_EPOCH - 1);
        assert_eq!(gather.goal(), 1);
        receive(&mut gather, &mut seen, 1);
        assert_eq!(gather.goal(), 10);
    }
}
