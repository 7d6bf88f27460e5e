//! The numbers by which one client calls methods.

use std::collections::BTreeMap;

use crate::limits;

/// What a client's number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lookup {
    /// The client has not said yet.
    Unsaid,
    /// A name that this server does not have.
    Unknown,
    /// The method at this place in the core's table.
    Method(usize),
}

impl Lookup {
    /// Of a number that is one more than the place; 0 stands for none.
    #[inline]
    pub(super) fn of_place(number: u32) -> Self {
        match number.checked_sub(1) {
            Some(place) => Self::Method(place as usize),
            None => Self::Unsaid,
        }
    }
}

/// A table by number: small numbers are looked up by index, others in a map that has those alone that
/// were said, since one call is enough to say the largest.
#[derive(Debug)]
pub(super) struct MethodIds {
    /// `UNSAID`, `UNKNOWN` or the place plus `METHODS`; as long as the highest small number in use.
    small: Vec<u32>,
    large: BTreeMap<u32, u32>,
    max: u32,
}

const UNSAID: u32 = 0;
const UNKNOWN: u32 = 1;
const METHODS: u32 = 2;

impl MethodIds {
    /// A table for numbers up to `max`.
    pub(super) fn new(max: u32) -> Self {
        Self { small: Vec::new(), large: BTreeMap::new(), max }
    }

    #[inline]
    pub(super) fn meaning(&self, number: u32) -> Lookup {
        let meaning = match self.small.get(number as usize) {
            Some(meaning) => *meaning,
            None => self.of_large(number),
        };
        match meaning {
            UNSAID => Lookup::Unsaid,
            UNKNOWN => Lookup::Unknown,
            method => Lookup::Method((method - METHODS) as usize),
        }
    }

    #[cold]
    fn of_large(&self, number: u32) -> u32 {
        self.large.get(&number).copied().unwrap_or(UNSAID)
    }

    /// Keeps what a number stands for. 0 is no number, and those above the bound are not kept: a
    /// client that uses them has to say the name each time.
    pub(super) fn learn(&mut self, number: u32, place: Option<usize>) {
        if number == 0 || number > self.max {
            return;
        }
        let meaning = place.map_or(UNKNOWN, |place| place as u32 + METHODS);
        if number >= limits::SMALL_NUMBERS {
            self.large.insert(number, meaning);
            return;
        }
        let at = number as usize;
        if self.small.len() <= at {
            self.small.resize(at + 1, UNSAID);
        }
        self.small[at] = meaning;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_was_said() {
        let mut numbers = MethodIds::new(4_096);
        for (number, place) in
            [(3, Some(0)), (8, None), (255, Some(7)), (256, Some(8)), (4_096, None)]
        {
            numbers.learn(number, place);
            let meaning = place.map_or(Lookup::Unknown, Lookup::Method);
            assert_eq!(numbers.meaning(number), meaning, "{number}");
        }
        for number in [0, 2, 257, 4_095] {
            assert_eq!(numbers.meaning(number), Lookup::Unsaid, "{number}");
        }
        numbers.learn(256, Some(9));
        assert_eq!(numbers.meaning(256), Lookup::Method(9), "said again");
    }

    #[test]
    fn no_number_and_numbers_beyond_the_bound_cost_no_memory() {
        let mut numbers = MethodIds::new(8);
        numbers.learn(0, Some(1));
        numbers.learn(u32::MAX, Some(1));
        assert_eq!(numbers.meaning(0), Lookup::Unsaid);
        assert_eq!(numbers.meaning(u32::MAX), Lookup::Unsaid);
        assert!(numbers.small.is_empty() && numbers.large.is_empty());
    }

    #[test]
    fn one_large_number_costs_what_one_number_costs() {
        let mut numbers = MethodIds::new(u32::MAX);
        for number in [256, 4_096, 1 << 20, u32::MAX] {
            numbers.learn(number, Some(1));
        }
        assert_eq!((numbers.small.len(), numbers.large.len()), (0, 4));
        numbers.learn(255, Some(1));
        assert!(numbers.small.capacity() <= limits::SMALL_NUMBERS as usize, "at most a KiB");
    }
}
