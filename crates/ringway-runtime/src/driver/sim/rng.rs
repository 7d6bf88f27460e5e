//! The random numbers of a simulation: small, seeded, the same on every machine.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014): one word of state, for which every seed is good.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number from zero to below `bound`, which must be above zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number from one to `most`, which must be above zero.
    pub(super) fn one_to(&mut self, most: usize) -> usize {
        1 + self.below(most)
    }

    /// True in `per_mille` of 1,000 cases.
    pub(super) fn chance(&mut self, per_mille: u16) -> bool {
        per_mille > 0 && self.below(1_000) < usize::from(per_mille)
    }

    /// A time from `min` to `max`, both included; `min` if `max` is smaller.
    pub(super) fn between(&mut self, min: Duration, max: Duration) -> Duration {
        let spread = max.saturating_sub(min).as_nanos() as u64;
        let extra = (u128::from(self.next()) * (u128::from(spread) + 1)) >> 64;
        min + Duration::from_nanos(extra as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut rng = Rng::new(1_234_567);
        let got = [rng.next(), rng.next(), rng.next()];
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(got, published);
    }

    #[test]
    fn numbers_cover_their_range_and_do_not_leave_it() {
        let mut rng = Rng::new(7);
        let drawn: Vec<usize> = (0..200).map(|_| rng.one_to(4)).collect();
        for number in 1..=4 {
            assert!(drawn.contains(&number));
        }
        assert!(drawn.iter().all(|number| (1..=4).contains(number)));
        let (min, max) = (Duration::from_nanos(3), Duration::from_nanos(5));
        assert!((0..200).all(|_| (min..=max).contains(&rng.between(min, max))));
        assert_eq!(rng.between(max, min), max);
    }

    #[test]
    fn chances_are_per_mille() {
        let mut rng = Rng::new(11);
        assert!((0..1_000).all(|_| !rng.chance(0) && rng.chance(1_000)));
        let hits = (0..10_000).filter(|_| rng.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits} of 10,000");
    }
}
