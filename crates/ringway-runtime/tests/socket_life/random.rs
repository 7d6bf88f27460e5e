//! Random choices that a seed repeats.

use std::ops::RangeInclusive;

/// A generator of random numbers.
pub(crate) struct Random(u64);

impl Random {
    /// The generator for the choices of `name` in the run with this seed.
    pub(crate) fn new(seed: u64, name: u64) -> Self {
        Self(mix(seed ^ mix(name.wrapping_add(STEP))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    pub(crate) fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.next() as usize % (range.end() - range.start() + 1)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.within(0..=99) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..=choices.len() - 1)]
    }

    /// A number up to `max`, small ones as often as large ones.
    pub(crate) fn of_any_size(&mut self, max: usize) -> usize {
        let bits = max.ilog2() as usize + 1;
        let below = 1_usize << self.within(1..=bits);
        self.within(0..=(below - 1).min(max))
    }
}

/// A bijection in which every bit of the input moves about half of the output's (SplitMix64's finisher).
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The inverse of [`mix`].
pub(crate) fn unmix(mut word: u64) -> u64 {
    word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ (word >> 30) ^ (word >> 60)
}

/// 2^64 divided by the golden ratio, odd.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// The inverse of `STEP` modulo 2^64.
pub(crate) const STEP_INVERSE: u64 = 0xf1de_83e1_9937_733d;
