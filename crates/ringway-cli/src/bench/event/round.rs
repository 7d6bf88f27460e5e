//! One iteration: what was written, what of it was read, and whether each byte was the right one.

use std::cell::Cell;

use crate::args::EventLoad;

/// The state of the current iteration, for any loop.
pub(super) struct Round {
    load: EventLoad,
    /// Part of every byte, so that none of an earlier iteration passes for one of this.
    number: Cell<u8>,
    /// How often a byte may still be passed on.
    left: Cell<u32>,
    written: Cell<u64>,
    read: Cell<u64>,
    /// Of all iterations.
    wrong: Cell<u64>,
    /// Of all before this one.
    wrong_before: Cell<u64>,
    verified: Cell<u64>,
}

impl Round {
    pub(super) fn new(load: EventLoad) -> Self {
        Self {
            load,
            number: Cell::new(0),
            left: Cell::new(0),
            written: Cell::new(0),
            read: Cell::new(0),
            wrong: Cell::new(0),
            wrong_before: Cell::new(0),
            verified: Cell::new(0),
        }
    }

    /// Begins the next iteration. Returns the bytes to write, each with its pipe.
    pub(super) fn begin(&self) -> impl Iterator<Item = (u32, u8)> {
        let EventLoad { pipes, active, writes } = self.load;
        self.number.set(self.number.get().wrapping_add(1));
        self.wrong_before.set(self.wrong.get());
        self.left.set(writes);
        self.written.set(active.into());
        self.read.set(0);
        let space = pipes / active;
        let number = self.number.get();
        (0..active).map(move |index| (index * space, mark(number, index * space)))
    }

    /// Takes a byte that has arrived at `pipe`. Returns the byte to write next, with its pipe, while there is one.
    #[inline]
    pub(super) fn arrived(&self, pipe: u32, byte: u8) -> Option<(u32, u8)> {
        self.read.set(self.read.get() + 1);
        self.verified.set(self.verified.get() + 1);
        if byte != mark(self.number.get(), pipe) {
            self.wrong.set(self.wrong.get() + 1);
        }
        self.left.set(self.left.get().checked_sub(1)?);
        self.written.set(self.written.get() + 1);
        let next = if pipe + 1 == self.load.pipes { 0 } else { pipe + 1 };
        Some((next, mark(self.number.get(), next)))
    }

    /// Whether every byte of this iteration was the right one so far.
    pub(super) fn is_right(&self) -> bool {
        self.wrong.get() == self.wrong_before.get()
    }

    /// Whether everything that was written has been read.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.read.get() == self.written.get()
    }

    /// Bytes that were written and not read.
    pub(super) fn missing(&self) -> u64 {
        self.written.get().saturating_sub(self.read.get())
    }

    /// Bytes compared in all iterations, and how many of them were wrong.
    pub(super) fn compared(&self) -> (u64, u64) {
        (self.verified.get(), self.wrong.get())
    }
}

/// The byte that belongs into `pipe`; neighbours have different ones.
#[inline]
fn mark(round: u8, pipe: u32) -> u8 {
    (pipe.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ round
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Passes bytes on in memory. Returns how often a byte has arrived at each pipe.
    fn play(round: &Round, pipes: u32) -> Vec<u32> {
        let mut arrivals = vec![0; pipes as usize];
        let mut under_way: VecDeque<_> = round.begin().collect();
        while let Some((pipe, byte)) = under_way.pop_front() {
            assert!(!round.is_over());
            arrivals[pipe as usize] += 1;
            under_way.extend(round.arrived(pipe, byte));
        }
        assert!(round.is_over());
        arrivals
    }

    #[test]
    fn each_iteration_reads_the_active_bytes_and_the_writes() {
        for (pipes, active, writes) in
            [(1, 1, 0), (1, 1, 9), (100, 1, 100), (10, 10, 3), (7, 3, 50)]
        {
            let load = EventLoad { pipes, active, writes };
            let round = Round::new(load);
            for iteration in 1..=300 {
                let arrivals: u32 = play(&round, pipes).iter().sum();
                assert_eq!(u64::from(arrivals), load.events(), "{load:?}");
                assert_eq!(round.compared(), (iteration * load.events(), 0), "{load:?}");
            }
        }
    }

    #[test]
    fn active_pipes_are_spread_and_pass_to_their_neighbours() {
        let round = Round::new(EventLoad { pipes: 8, active: 2, writes: 4 });
        assert_eq!(play(&round, 8), [1, 1, 1, 0, 1, 1, 1, 0]);
    }

    #[test]
    fn bytes_of_another_pipe_or_iteration_are_wrong() {
        let round = Round::new(EventLoad { pipes: 3, active: 1, writes: 9 });
        let (pipe, old) = round.begin().next().expect("an active pipe");
        round.arrived(pipe + 1, old);
        assert_eq!((round.compared(), round.is_right()), ((1, 1), false), "of another pipe");
        let (pipe, fresh) = round.begin().next().expect("an active pipe");
        assert!(round.is_right());
        round.arrived(pipe, old);
        assert_eq!(round.compared(), (2, 2), "of another iteration");
        round.arrived(pipe, fresh);
        assert_eq!((round.compared(), round.is_right()), ((3, 2), false));
    }
}
