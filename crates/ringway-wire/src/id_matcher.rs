//! Matching of replies that carry the id of their request.

use std::time::Duration;

use crate::deadlines::Deadlines;
use crate::limits::{ID_TABLE_MIN, IN_FLIGHT_MAX};
use crate::{Error, RequestId};

/// Matches replies to requests by id, for protocols whose replies come in any order.
///
/// Ids are assigned in sequence, so that one is reused only after all others: a reply that arrives
/// after its request timed out matches nothing.
///
/// The matcher owns a context of type `T` for each request and returns it exactly once. It reads no
/// clock: times are durations since one origin that the caller chooses.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ringway_wire::{Error, IdMatcher};
///
/// let second = Duration::from_secs(1);
/// let mut waiting = IdMatcher::with_u32_ids(2);
/// let a = waiting.begin(second * 10, second, "a")?;
/// let b = waiting.begin(second * 10, second * 5, "b")?;
/// let full = waiting.begin(second * 10, second, "c");
/// assert_eq!(full, Err(Error::TooManyInFlight { max: 2 }));
///
/// assert_eq!(waiting.complete(b), Some("b"));
/// assert_eq!(waiting.poll_timeout(second * 11), Some((a, "a")));
/// assert_eq!(waiting.complete(a), None, "too late");
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct IdMatcher<T> {
    /// The request with `id` is at index `id % table.len()`. The length is 0 or a power of two, and
    /// at least twice `live`, so a sequence of ids soon reaches a free entry.
    table: Vec<Option<Waiting<T>>>,
    /// Number of entries in use.
    live: usize,
    in_flight_max: usize,
    /// The id to try next.
    next: u64,
    /// The largest id.
    id_max: u64,
    /// Number of requests started so far.
    begun: u64,
    deadlines: Deadlines<RequestId>,
}

#[derive(Debug)]
struct Waiting<T> {
    id: RequestId,
    /// The request's position among all requests; ids lose the order when they wrap around.
    serial: u64,
    context: T,
}

impl<T> IdMatcher<T> {
    /// Creates a matcher with 64-bit ids, for at most `in_flight_max` requests in flight, and never
    /// more than 2^20.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Self {
        Self::with_ids(in_flight_max, u64::MAX)
    }

    /// Creates a matcher like [`new`](Self::new) whose ids fit into 32 bits.
    #[must_use]
    pub fn with_u32_ids(in_flight_max: usize) -> Self {
        Self::with_ids(in_flight_max, u64::from(u32::MAX))
    }

    fn with_ids(in_flight_max: usize, id_max: u64) -> Self {
        Self {
            table: Vec::new(),
            live: 0,
            in_flight_max: in_flight_max.min(IN_FLIGHT_MAX),
            next: FIRST_ID,
            id_max,
            begun: 0,
            deadlines: Deadlines::default(),
        }
    }

    /// Adds a request that is sent at `now` and times out at `now + timeout`.
    ///
    /// # Errors
    ///
    /// Returns [`TooManyInFlight`](Error::TooManyInFlight); `context` is then dropped.
    pub fn begin(
        &mut self,
        now: Duration,
        timeout: Duration,
        context: T,
    ) -> Result<RequestId, Error> {
        if self.live >= self.in_flight_max {
            return Err(Error::TooManyInFlight { max: self.in_flight_max });
        }
        if 2 * (self.live + 1) > self.table.len() {
            self.grow();
        }
        let id = self.free_id();
        let slot = self.slot(id);
        self.table[slot] = Some(Waiting { id, serial: self.begun, context });
        self.begun += 1;
        self.live += 1;
        self.deadlines.arm(now.saturating_add(timeout), id);
        Ok(id)
    }

    /// Takes the reply to `id` and returns the context of its request, or `None` if no such request
    /// is waiting.
    pub fn complete(&mut self, id: RequestId) -> Option<T> {
        if self.table.is_empty() {
            return None;
        }
        let slot = self.slot(id);
        let waiting = self.table[slot].take_if(|waiting| waiting.id == id)?;
        self.live -= 1;
        let table = &self.table;
        self.deadlines.settle(self.live, |id| {
            table[slot_of(id, table.len())].as_ref().is_some_and(|waiting| waiting.id == id)
        });
        Some(waiting.context)
    }

    /// Ends one request whose deadline is not after `now`, the earliest first; call it until
    /// `None`.
    pub fn poll_timeout(&mut self, now: Duration) -> Option<(RequestId, T)> {
        let id = self.deadlines.pop_due(now)?;
        let context = self.complete(id)?;
        Some((id, context))
    }

    /// The next time at which [`poll_timeout`](Self::poll_timeout) will end a request.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.next()
    }

    /// Ends all requests because the connection ended, and returns them in the order in which they
    /// started.
    ///
    /// Ids continue where they were. Contexts not taken from the iterator are dropped with it.
    pub fn fail_all(&mut self) -> impl Iterator<Item = (RequestId, T)> + use<T> {
        let mut failed: Vec<Waiting<T>> =
            std::mem::take(&mut self.table).into_iter().flatten().collect();
        failed.sort_unstable_by_key(|waiting| waiting.serial);
        self.live = 0;
        self.deadlines.clear();
        failed.into_iter().map(|waiting| (waiting.id, waiting.context))
    }

    /// Number of requests that wait for a reply.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.live
    }

    /// The next id in sequence whose entry is free. Found within one round of the table, half of
    /// which is free.
    fn free_id(&mut self) -> RequestId {
        loop {
            let id = RequestId::from(self.next);
            self.next = if self.next == self.id_max { FIRST_ID } else { self.next + 1 };
            if self.table[self.slot(id)].is_none() {
                return id;
            }
        }
    }

    /// Doubles the table. Ids with different entries in a smaller table have different ones in a
    /// larger.
    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.table.len()).max(ID_TABLE_MIN);
        let mut table: Vec<_> = std::iter::repeat_with(|| None).take(len).collect();
        for waiting in self.table.drain(..).flatten() {
            let slot = slot_of(waiting.id, len);
            table[slot] = Some(waiting);
        }
        self.table = table;
    }

    fn slot(&self, id: RequestId) -> usize {
        slot_of(id, self.table.len())
    }
}

fn slot_of(id: RequestId, table_len: usize) -> usize {
    debug_assert!(table_len.is_power_of_two());
    id.to_u64() as usize & (table_len - 1)
}

/// The first id, since many protocols give 0 a meaning of its own.
const FIRST_ID: u64 = 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::IdMatcher;
    use crate::{Error, RequestId};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn replies_match_in_any_order() {
        let mut matcher = IdMatcher::new(100);
        let ids: Vec<_> = (0..100).map(|n| matcher.begin(MS, MS, n).expect("room")).collect();
        assert_eq!(matcher.begin(MS, MS, 100), Err(Error::TooManyInFlight { max: 100 }));
        for (n, id) in ids.iter().enumerate().rev() {
            assert_eq!(matcher.complete(*id), Some(n));
            assert_eq!(matcher.complete(*id), None);
        }
        assert_eq!((matcher.in_flight(), matcher.next_deadline()), (0, None));
    }

    #[test]
    fn unknown_ids_match_nothing() {
        let mut matcher = IdMatcher::new(4);
        assert_eq!(matcher.complete(RequestId::from(1_u64)), None);
        let id = matcher.begin(MS, MS, ()).expect("room");
        for unknown in [0, 2, 17, u64::MAX] {
            assert_eq!(matcher.complete(RequestId::from(unknown)), None);
        }
        assert_eq!(matcher.complete(id), Some(()));
    }

    #[test]
    fn a_slow_request_keeps_its_id_while_32_bit_ids_wrap_around() {
        let mut matcher = IdMatcher::with_u32_ids(8);
        let slow = matcher.begin(MS, Duration::MAX, 'a').expect("room");
        matcher.next = u64::from(u32::MAX);
        let last = matcher.begin(MS, MS, 'b').expect("room");
        let after = matcher.begin(MS, MS, 'c').expect("room");
        assert_eq!(last.to_u32(), Some(u32::MAX));
        assert_eq!(after.to_u32(), Some(2), "neither 0 nor the slow request's 1");
        let order: Vec<_> = matcher.fail_all().collect();
        assert_eq!(order, [(slow, 'a'), (last, 'b'), (after, 'c')]);
    }

    #[test]
    fn fail_all_ends_each_request_once() {
        let mut matcher = IdMatcher::new(64);
        for n in 0..40 {
            matcher.begin(MS, MS, n).expect("room");
        }
        assert_eq!(matcher.complete(RequestId::from(1_u32)), Some(0));
        let contexts: Vec<_> = matcher.fail_all().map(|(_, n)| n).collect();
        assert_eq!(contexts, (1..40).collect::<Vec<_>>());
        assert_eq!((matcher.in_flight(), matcher.next_deadline()), (0, None));
        assert_eq!(matcher.poll_timeout(Duration::MAX), None);
        assert_eq!(matcher.begin(MS, MS, 0).expect("room").to_u64(), 41);
    }
}
