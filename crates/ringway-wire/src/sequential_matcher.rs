//! Matching of replies that come in the order of their requests.

use std::collections::VecDeque;
use std::time::Duration;

use crate::deadlines::Deadlines;
use crate::limits::IN_FLIGHT_MAX;
use crate::{Error, RequestId};

/// Matches replies to requests by their order, for protocols without request ids.
///
/// A request that timed out or was cancelled keeps its position in the order: the reply that the
/// peer may still send is dropped and never taken for that of the next request. Until then it
/// counts as in flight, so a peer that stopped answering is noticed by
/// [`TooManyInFlight`](Error::TooManyInFlight).
///
/// The matcher owns a context of type `T` for each request and returns it exactly once. It reads no
/// clock: times are durations since one origin that the caller chooses.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ringway_wire::{Error, SequentialMatcher};
///
/// let second = Duration::from_secs(1);
/// let mut waiting = SequentialMatcher::new(8);
/// let a = waiting.begin(second * 10, second, "a")?;
/// waiting.begin(second * 10, second * 5, "b")?;
///
/// assert_eq!(waiting.next_deadline(), Some(second * 11));
/// assert_eq!(waiting.poll_timeout(second * 11), Some((a, "a")));
/// assert_eq!(waiting.poll_timeout(second * 11), None);
///
/// assert_eq!(waiting.complete_next(), Ok(None), "the late reply to a");
/// assert_eq!(waiting.complete_next(), Ok(Some("b")));
/// assert_eq!(waiting.complete_next(), Err(Error::UnexpectedReply));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct SequentialMatcher<T> {
    /// One entry for each reply that may still arrive, in order; `None` if nobody waits for it.
    contexts: VecDeque<Option<T>>,
    /// The id of the first entry. Ids are consecutive.
    first: u64,
    /// Number of entries that hold a context.
    live: usize,
    in_flight_max: usize,
    deadlines: Deadlines<RequestId>,
}

impl<T> SequentialMatcher<T> {
    /// Creates a matcher for at most `in_flight_max` requests in flight, and never more than 2^20.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Self {
        Self {
            contexts: VecDeque::new(),
            first: 1,
            live: 0,
            in_flight_max: in_flight_max.min(IN_FLIGHT_MAX),
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
        if self.contexts.len() >= self.in_flight_max {
            return Err(Error::TooManyInFlight { max: self.in_flight_max });
        }
        let id = RequestId::from(self.first + self.contexts.len() as u64);
        self.contexts.push_back(Some(context));
        self.live += 1;
        self.deadlines.arm(now.saturating_add(timeout), id);
        Ok(id)
    }

    /// Takes the next reply and returns the context of its request, or `None` if that request has
    /// ended and the reply must be dropped.
    ///
    /// # Errors
    ///
    /// Returns [`UnexpectedReply`](Error::UnexpectedReply) when no reply is due.
    pub fn complete_next(&mut self) -> Result<Option<T>, Error> {
        let context = self.contexts.pop_front().ok_or(Error::UnexpectedReply)?;
        self.first += 1;
        if context.is_some() {
            self.ended();
        }
        Ok(context)
    }

    /// Stops waiting for `id` and returns its context; its reply will be dropped. `None` if it has
    /// ended.
    pub fn cancel(&mut self, id: RequestId) -> Option<T> {
        let index = index_of(id, self.first)?;
        let context = self.contexts.get_mut(index)?.take()?;
        self.ended();
        Some(context)
    }

    /// Ends one request whose deadline is not after `now`, the earliest first; call it until
    /// `None`.
    pub fn poll_timeout(&mut self, now: Duration) -> Option<(RequestId, T)> {
        let id = self.deadlines.pop_due(now)?;
        let context = self.cancel(id)?;
        Some((id, context))
    }

    /// The next time at which [`poll_timeout`](Self::poll_timeout) will end a request.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.next()
    }

    /// Ends all requests because the connection ended, and returns them in order.
    ///
    /// The matcher expects no more replies and is ready for another connection. Contexts not taken
    /// from the iterator are dropped with it.
    pub fn fail_all(&mut self) -> impl Iterator<Item = (RequestId, T)> + use<T> {
        let first = self.first;
        let contexts = std::mem::take(&mut self.contexts);
        self.first += contexts.len() as u64;
        self.live = 0;
        self.deadlines.clear();
        (first..).zip(contexts).filter_map(|(id, context)| Some((id.into(), context?)))
    }

    /// Number of requests that wait for a reply.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.live
    }

    /// Number of replies that may still arrive, for waiting and for ended requests.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.contexts.len()
    }

    fn ended(&mut self) {
        self.live -= 1;
        let (contexts, first) = (&self.contexts, self.first);
        self.deadlines.settle(self.live, |id| {
            index_of(id, first).and_then(|index| contexts.get(index)).is_some_and(Option::is_some)
        });
    }
}

fn index_of(id: RequestId, first: u64) -> Option<usize> {
    usize::try_from(id.to_u64().checked_sub(first)?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SequentialMatcher;
    use crate::{Error, RequestId};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_reply_is_dropped() {
        let mut matcher = SequentialMatcher::new(4);
        let a = matcher.begin(MS, 10 * MS, 'a').expect("room");
        let b = matcher.begin(MS, 30 * MS, 'b').expect("room");
        let c = matcher.begin(MS, 20 * MS, 'c').expect("room");
        assert_eq!(matcher.poll_timeout(10 * MS), None);
        assert_eq!(matcher.poll_timeout(25 * MS), Some((a, 'a')));
        assert_eq!(matcher.poll_timeout(25 * MS), Some((c, 'c')), "out of order");
        assert_eq!(matcher.poll_timeout(25 * MS), None);
        assert_eq!((matcher.waiting(), matcher.in_flight()), (1, 3));
        assert_eq!(matcher.next_deadline(), Some(31 * MS));

        let d = matcher.begin(26 * MS, 10 * MS, 'd').expect("room");
        assert_eq!(matcher.begin(26 * MS, MS, 'e'), Err(Error::TooManyInFlight { max: 4 }));
        assert_eq!(matcher.complete_next(), Ok(None));
        assert_eq!(matcher.complete_next(), Ok(Some('b')));
        assert_eq!(matcher.complete_next(), Ok(None));
        assert_eq!(matcher.complete_next(), Ok(Some('d')));
        assert_eq!(matcher.complete_next(), Err(Error::UnexpectedReply));
        assert_eq!(matcher.next_deadline(), None);
        assert_eq!([a, b, c, d], [1, 2, 3, 4_u64].map(RequestId::from));
    }

    #[test]
    fn a_cancelled_request_keeps_its_position() {
        let mut matcher = SequentialMatcher::new(4);
        let a = matcher.begin(MS, MS, 'a').expect("room");
        matcher.begin(MS, 5 * MS, 'b').expect("room");
        assert_eq!(matcher.cancel(a), Some('a'));
        assert_eq!(matcher.cancel(a), None);
        assert_eq!(matcher.cancel(RequestId::from(99_u64)), None);
        assert_eq!(matcher.next_deadline(), Some(6 * MS));
        assert_eq!(matcher.complete_next(), Ok(None));
        assert_eq!(matcher.complete_next(), Ok(Some('b')));
    }

    #[test]
    fn fail_all_ends_each_request_once() {
        let mut matcher = SequentialMatcher::new(8);
        for context in 0..5 {
            matcher.begin(MS, MS * (context + 1), context).expect("room");
        }
        assert_eq!(matcher.complete_next(), Ok(Some(0)));
        assert_eq!(matcher.poll_timeout(3 * MS).map(|(_, context)| context), Some(1));
        let failed: Vec<_> = matcher.fail_all().map(|(id, n)| (id.to_u64(), n)).collect();
        assert_eq!(failed, [(3, 2), (4, 3), (5, 4)]);
        assert_eq!((matcher.in_flight(), matcher.next_deadline()), (0, None));
        assert_eq!(matcher.complete_next(), Err(Error::UnexpectedReply));
        let id = matcher.begin(MS, MS, 9).expect("room");
        assert_eq!((id.to_u64(), matcher.complete_next()), (6, Ok(Some(9))));
    }

    #[test]
    fn a_timeout_beyond_the_range_of_time_never_happens() {
        let mut matcher = SequentialMatcher::new(1);
        matcher.begin(MS, Duration::MAX, ()).expect("room");
        assert_eq!(matcher.next_deadline(), Some(Duration::MAX));
        assert_eq!(matcher.poll_timeout(Duration::from_secs(u64::from(u32::MAX))), None);
    }
}
