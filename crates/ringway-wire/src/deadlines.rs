//! Which of the waiting requests times out next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::RequestId;
use crate::limits::STALE_DEADLINES;

/// The deadlines of a matcher's requests, the earliest on top.
///
/// A request that ends leaves its entry behind; [`settle`](Self::settle) removes it when it comes
/// to the top or when too many have gathered. So every operation is O(log n) at most, averaged,
/// and the steady state allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// The top entry is that of a live request, except between a change and its `settle`.
    heap: BinaryHeap<Reverse<(Duration, RequestId)>>,
}

impl Deadlines {
    pub(crate) fn arm(&mut self, deadline: Duration, id: RequestId) {
        self.heap.push(Reverse((deadline, id)));
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Removes the earliest deadline if it is not after `now`. Needs a `settle` when it did.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<RequestId> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// To be called whenever a request ended; `live_len` counts the requests that did not.
    pub(crate) fn settle(&mut self, live_len: usize, is_live: impl Fn(RequestId) -> bool) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Deadlines;
    use crate::RequestId;
    use crate::limits::STALE_DEADLINES;

    #[test]
    fn ended_requests_do_not_pile_up_behind_a_slow_one() {
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
