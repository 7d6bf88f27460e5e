//! A queue that is nearly always empty.

use std::cmp::Ordering;
use std::collections::VecDeque;

/// A queue that takes the room of a pointer until something is pushed: a connection has several
/// that most connections never use. Its memory is kept for the next entry until
/// [`drop_spare`](Self::drop_spare).
#[derive(Debug)]
pub(crate) struct RareQueue<T>(Option<Box<Entries<T>>>);

#[derive(Debug)]
struct Entries<T>(VecDeque<T>);

impl<T> RareQueue<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|entries| entries.0.is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |entries| entries.0.len())
    }

    pub(crate) fn push_back(&mut self, entry: T) {
        self.0.get_or_insert_with(|| Box::new(Entries(VecDeque::new()))).0.push_back(entry);
    }

    /// Adds an entry to a queue that is sorted. One that belongs near either end is cheap.
    pub(crate) fn insert_sorted(&mut self, entry: T)
    where
        T: Ord,
    {
        let entries = &mut self.0.get_or_insert_with(|| Box::new(Entries(VecDeque::new()))).0;
        let at = entries.partition_point(|other| *other < entry);
        entries.insert(at, entry);
    }

    /// Whether a queue that is sorted has an entry for which `compare` says that it is equal.
    pub(crate) fn has_sorted(&self, compare: impl FnMut(&T) -> Ordering) -> bool {
        self.0.as_ref().is_some_and(|entries| entries.0.binary_search_by(compare).is_ok())
    }

    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = T>) {
        entries.into_iter().for_each(|entry| self.push_back(entry));
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.0.as_mut()?.0.pop_front()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.0.as_ref()?.0.front()
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()?.0.front_mut()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().flat_map(|entries| entries.0.iter())
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(entries) = &mut self.0 {
            entries.0.retain(keep);
        }
    }

    /// Drops the entries and the memory for more.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Frees the memory of an empty queue.
    pub(crate) fn drop_spare(&mut self) {
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl<T> Default for RareQueue<T> {
    fn default() -> Self {
        Self(None)
    }
}
