//! The numbers by which one client calls methods.

/// What a client's number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// The client has not said yet.
    Unsaid,
    /// A name that this server does not have.
    Unknown,
    /// The method at this place in the core's table.
    Method(usize),
}

/// A table by number, as long as the highest number in use.
#[derive(Debug)]
pub(super) struct Numbers {
    /// `UNSAID`, `UNKNOWN` or the place plus `METHODS`.
    meanings: Vec<u32>,
    max: u32,
}

const UNSAID: u32 = 0;
const UNKNOWN: u32 = 1;
const METHODS: u32 = 2;

impl Numbers {
    /// A table for numbers up to `max`.
    pub(super) fn new(max: u32) -> Self {
        Self { meanings: Vec::new(), max }
    }

    #[inline]
    pub(super) fn meaning(&self, number: u32) -> Meaning {
        match self.meanings.get(number as usize).copied().unwrap_or(UNSAID) {
            UNSAID => Meaning::Unsaid,
            UNKNOWN => Meaning::Unknown,
            method => Meaning::Method((method - METHODS) as usize),
        }
    }

    /// Keeps what a number stands for. 0 is no number, and those above the bound are not kept: a
    /// client that uses them has to say the name each time.
    pub(super) fn learn(&mut self, number: u32, place: Option<usize>) {
        if number == 0 || number > self.max {
            return;
        }
        let at = number as usize;
        if self.meanings.len() <= at {
            self.meanings.resize(at + 1, UNSAID);
        }
        self.meanings[at] = place.map_or(UNKNOWN, |place| place as u32 + METHODS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_was_said() {
        let mut numbers = Numbers::new(8);
        numbers.learn(3, Some(0));
        numbers.learn(8, None);
        assert_eq!(numbers.meaning(3), Meaning::Method(0));
        assert_eq!(numbers.meaning(8), Meaning::Unknown);
        assert_eq!(numbers.meaning(2), Meaning::Unsaid);
    }

    #[test]
    fn no_number_and_numbers_beyond_the_bound_cost_no_memory() {
        let mut numbers = Numbers::new(8);
        numbers.learn(0, Some(1));
        numbers.learn(u32::MAX, Some(1));
        assert_eq!(numbers.meaning(0), Meaning::Unsaid);
        assert_eq!(numbers.meaning(u32::MAX), Meaning::Unsaid);
        assert!(numbers.meanings.is_empty());
    }
}
