//! A queue of deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::limits::STALE_DEADLINES;

/// Deadlines of a matcher's requests or of a connection's streams, the earliest first.
///
/// The entry of a request that ends stays behind; [`settle`](Self::settle) removes it when it comes
/// to the top or when too many have gathered. So every operation takes O(log n) on average, and the
/// steady state allocates nothing.
#[derive(Debug)]
pub(crate) struct Deadlines<K> {
    /// The top entry belongs to a live request, except between a change and its `settle`.
    heap: BinaryHeap<Reverse<(Duration, K)>>,
}

impl<K: Ord + Copy> Deadlines<K> {
    pub(crate) fn arm(&mut self, deadline: Duration, id: K) {
        self.heap.push(Reverse((deadline, id)));
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Removes the earliest deadline if it is not after `now`. Call [`settle`](Self::settle) if it
    /// did.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// Removes entries of ended requests; call it whenever one ended. `live_len` is the number of
    /// live ones.
    pub(crate) fn settle(&mut self, live_len: usize, is_live: impl Fn(K) -> bool) {
        if self.heap.len() > 2 * live_len + STALE_DEADLINES {
            self.heap.retain(|Reverse((_, id))| is_live(*id));
        }
        while let Some(Reverse((_, id))) = self.heap.peek() {
            if is_live(*id) {
                break;
            }
            self.heap.pop();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }
}

impl<K: Ord> Default for Deadlines<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Deadlines;
    use crate::RequestId;
    use crate::limits::STALE_DEADLINES;

    #[test]
    fn entries_of_ended_requests_do_not_pile_up_behind_a_slow_one() {
        let mut deadlines = Deadlines::default();
        let slow = RequestId::from(0_u64);
        deadlines.arm(Duration::from_secs(1), slow);
        for id in 1..10_000_u64 {
            deadlines.arm(Duration::from_secs(5), id.into());
            deadlines.settle(1, |live| live == slow);
            assert!(deadlines.heap.len() <= 2 + STALE_DEADLINES);
        }
        assert_eq!(deadlines.next(), Some(Duration::from_secs(1)));
    }
}
