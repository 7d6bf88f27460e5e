//! The numbers of cores in connection ids.
//!
//! Each core of each server has its own number in the process, so that ids differ between servers,
//! also between an earlier server and a later one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Kind, Result};
use crate::limits;

/// The number of one core of one server; dropping it frees the number.
pub(crate) struct CoreNumber {
    number: u16,
    /// The first use of a slot that no earlier id with this number has.
    reuse: u32,
}

/// The numbers of a process.
struct Numbers {
    /// The lowest number that was never used.
    next: u16,
    /// Freed numbers, with the use of a slot from which they continue; the first has been free for
    /// longest.
    free: VecDeque<(u16, u32)>,
}

static OF_THE_PROCESS: Mutex<Numbers> = Mutex::new(Numbers { next: 0, free: VecDeque::new() });

impl CoreNumber {
    /// Takes numbers for the cores of one server.
    ///
    /// # Errors
    /// Fails when not enough numbers are free.
    pub(crate) fn take(count: usize) -> Result<Vec<Self>> {
        let mut numbers = OF_THE_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.take(count).ok_or_else(|| {
            let what = format!("a process has {} cores of servers", limits::SERVER_CORES_MAX);
            Error::new(Kind::Limit, format!("{what} at most: end a server that is not needed"))
        })
    }

    pub(crate) fn get(&self) -> u16 {
        self.number
    }

    /// Returns the use number at which slots begin to count.
    pub(crate) fn reuse(&self) -> u32 {
        self.reuse
    }

    /// Notes that an id with use number `reuse` was made.
    pub(crate) fn note(&mut self, reuse: u32) {
        self.reuse = self.reuse.max(reuse.saturating_add(1));
    }
}

impl Drop for CoreNumber {
    fn drop(&mut self) {
        let mut numbers = OF_THE_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.give_back(self.number, self.reuse);
    }
}

impl Numbers {
    /// Takes unused numbers first, so that a freed number is reused as late as possible.
    fn take(&mut self, count: usize) -> Option<Vec<CoreNumber>> {
        let unused = limits::SERVER_CORES_MAX - usize::from(self.next);
        if count > unused + self.free.len() {
            return None;
        }
        let fresh = count.min(unused) as u16;
        let unused = (self.next..self.next + fresh).map(|number| (number, 0));
        self.next += fresh;
        let again = self.free.drain(..count - usize::from(fresh));
        let taken = unused.chain(again).map(|(number, reuse)| CoreNumber { number, reuse });
        Some(taken.collect())
    }

    fn give_back(&mut self, number: u16, reuse: u32) {
        if reuse < limits::CORE_NUMBER_REUSE_MAX {
            self.free.push_back((number, reuse));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(numbers: &mut Numbers, count: usize) -> Option<Vec<(u16, u32)>> {
        // The numbers of the test do not go back to the process's table.
        let taken = numbers.take(count)?.into_iter().map(std::mem::ManuallyDrop::new);
        Some(taken.map(|taken| (taken.get(), taken.reuse())).collect())
    }

    #[test]
    fn number_is_reused_last_and_continues_its_count() {
        let mut numbers = Numbers { next: 0, free: VecDeque::new() };
        assert_eq!(take(&mut numbers, 2), Some(vec![(0, 0), (1, 0)]));
        numbers.give_back(1, 7);
        numbers.give_back(0, 9);
        let rest = limits::SERVER_CORES_MAX - 2;
        assert_eq!(take(&mut numbers, rest).map(|taken| taken.len()), Some(rest));
        assert_eq!(take(&mut numbers, 3), None);
        assert_eq!(take(&mut numbers, 1), Some(vec![(1, 7)]));
        numbers.give_back(1, limits::CORE_NUMBER_REUSE_MAX);
        assert_eq!(take(&mut numbers, 2), None, "one is used up");
        assert_eq!(take(&mut numbers, 1), Some(vec![(0, 9)]));
    }

    #[test]
    fn used_ids_are_not_reused() {
        let mut number = std::mem::ManuallyDrop::new(CoreNumber { number: 0, reuse: 5 });
        number.note(3);
        assert_eq!(number.reuse(), 5);
        number.note(5);
        assert_eq!(number.reuse(), 6);
        number.note(u32::MAX);
        assert_eq!(number.reuse(), u32::MAX);
    }
}
