//! The numbers by which one client calls methods.

use std::collections::BTreeMap;

use crate::limits;

/// The result of looking up a client's method number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lookup {
    /// The client has not given the number's name yet.
    Unnamed,
    /// The name belongs to no method of this server.
    Unknown,
    /// The method with this index in the core's table.
    Method(usize),
}

impl Lookup {
    /// Looks up a number that is one more than the method's index; 0 has no method.
    #[inline]
    pub(super) fn of_index(number: u32) -> Self {
        match number.checked_sub(1) {
            Some(method_index) => Self::Method(method_index as usize),
            None => Self::Unnamed,
        }
    }
}

/// A table of one client's method numbers. Small numbers index a vector; larger ones go into a map, so
/// that a single large number does not cost a large table.
#[derive(Debug)]
pub(super) struct MethodIds {
    /// `UNNAMED`, `UNKNOWN`, or the method's index plus `METHODS`; as long as the highest small number in
    /// use.
    small: Vec<u32>,
    large: BTreeMap<u32, u32>,
    max: u32,
}

const UNNAMED: u32 = 0;
const UNKNOWN: u32 = 1;
const METHODS: u32 = 2;

impl MethodIds {
    /// A table for numbers up to `max`.
    pub(super) fn new(max: u32) -> Self {
        Self { small: Vec::new(), large: BTreeMap::new(), max }
    }

    #[inline]
    pub(super) fn lookup(&self, number: u32) -> Lookup {
        let meaning = match self.small.get(number as usize) {
            Some(meaning) => *meaning,
            None => self.lookup_large(number),
        };
        match meaning {
            UNNAMED => Lookup::Unnamed,
            UNKNOWN => Lookup::Unknown,
            method => Lookup::Method((method - METHODS) as usize),
        }
    }

    #[cold]
    fn lookup_large(&self, number: u32) -> u32 {
        self.large.get(&number).copied().unwrap_or(UNNAMED)
    }

    /// Records the method of a number. 0 is not a valid number, and numbers above the bound are not kept:
    /// a client that uses those has to send the name each time.
    pub(super) fn record(&mut self, number: u32, method_index: Option<usize>) {
        if number == 0 || number > self.max {
            return;
        }
        let meaning = method_index.map_or(UNKNOWN, |method_index| method_index as u32 + METHODS);
        if number >= limits::SMALL_NUMBERS {
            self.large.insert(number, meaning);
            return;
        }
        let at = number as usize;
        if self.small.len() <= at {
            self.small.resize(at + 1, UNNAMED);
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
        for (number, method_index) in
            [(3, Some(0)), (8, None), (255, Some(7)), (256, Some(8)), (4_096, None)]
        {
            numbers.record(number, method_index);
            let meaning = method_index.map_or(Lookup::Unknown, Lookup::Method);
            assert_eq!(numbers.lookup(number), meaning, "{number}");
        }
        for number in [0, 2, 257, 4_095] {
            assert_eq!(numbers.lookup(number), Lookup::Unnamed, "{number}");
        }
        numbers.record(256, Some(9));
        assert_eq!(numbers.lookup(256), Lookup::Method(9), "said again");
    }

    #[test]
    fn no_number_and_numbers_beyond_the_bound_cost_no_memory() {
        let mut numbers = MethodIds::new(8);
        numbers.record(0, Some(1));
        numbers.record(u32::MAX, Some(1));
        assert_eq!(numbers.lookup(0), Lookup::Unnamed);
        assert_eq!(numbers.lookup(u32::MAX), Lookup::Unnamed);
        assert!(numbers.small.is_empty() && numbers.large.is_empty());
    }

    #[test]
    fn one_large_number_costs_what_one_number_costs() {
        let mut numbers = MethodIds::new(u32::MAX);
        for number in [256, 4_096, 1 << 20, u32::MAX] {
            numbers.record(number, Some(1));
        }
        assert_eq!((numbers.small.len(), numbers.large.len()), (0, 4));
        numbers.record(255, Some(1));
        assert!(numbers.small.capacity() <= limits::SMALL_NUMBERS as usize, "at most a KiB");
    }
}
