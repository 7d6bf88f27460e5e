//! How many completions a wait should gather before it ends.
//!
//! A loop that is slightly faster than its peers wakes up for one or two messages at a time and
//! pays a whole turn for each, and its peer a wake-up. When many connections are active, it is
//! cheaper for both sides to sleep until a quarter of them has received: while those gather here,
//! the rest keeps the peers busy, so neither side waits for the other.
//!
//! If a gather does not complete within its time limit, it ends with what there is, and no other
//! one is tried until activity has been counted anew. So a lone message is late by that limit at
//! most, once in [`limits::GATHER_EPOCH`] messages.

use crate::limits;

/// A count of the active connections.
pub(crate) struct Gather {
    epoch: u32,
    receives: u32,
    /// Connections that received in this epoch.
    active: u32,
    /// The number of active connections in the last complete epoch.
    recently_active: u32,
}

impl Gather {
    pub(crate) fn new() -> Self {
        Self { epoch: 1, receives: 0, active: 0, recently_active: 0 }
    }

    /// Records a receive of a connection, whose last epoch is in `seen`.
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

    /// Number of receives to wait for; at least one.
    pub(crate) fn goal(&self) -> u32 {
        (self.recently_active / 4).clamp(1, limits::GATHER_MAX)
    }

    /// Records that a wait received less than its goal.
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
    fn an_incomplete_gather_is_not_tried_again_at_once() {
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
