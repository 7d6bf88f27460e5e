//! A short queue that sheds: in order while it empties now and then, newest first when it does not.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits;

/// Calls that wait for room to run. Each has a time by which it must have run, short while the
/// server is overloaded: whoever waits behind a standing queue gets an answer too late anyway.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    entries: VecDeque<(Duration, T)>,
    room: usize,
    /// When the queue was last seen empty, or began to fill.
    empty_at: Duration,
}

impl<T> Queue<T> {
    pub(crate) fn new(room: usize) -> Self {
        Self { entries: VecDeque::new(), room, empty_at: Duration::ZERO }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes in a call. The answer is the one that has to go for it: the oldest, or `entry` itself
    /// where there is no room at all.
    pub(crate) fn push(&mut self, entry: T, now: Duration) -> Option<T> {
        if self.room == 0 {
            return Some(entry);
        }
        if self.entries.is_empty() {
            self.empty_at = now;
        }
        self.entries.push_back((now, entry));
        if self.entries.len() <= self.room {
            return None;
        }
        self.entries.pop_front().map(|(_, oldest)| oldest)
    }

    /// The next to run, and how long it has waited.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<(Duration, T)> {
        let next = match self.is_overloaded(now) {
            true => self.entries.pop_back(),
            false => self.entries.pop_front(),
        };
        if self.entries.is_empty() {
            self.empty_at = now;
        }
        next.map(|(since, entry)| (now.saturating_sub(since), entry))
    }

    /// The oldest, if it has waited for too long.
    pub(crate) fn pop_expired(&mut self, now: Duration) -> Option<T> {
        let patience = self.patience(now);
        let (since, _) = self.entries.front()?;
        if now.saturating_sub(*since) < patience {
            return None;
        }
        let (_, entry) = self.entries.pop_front()?;
        if self.entries.is_empty() {
            self.empty_at = now;
        }
        Some(entry)
    }

    /// When the oldest will have waited for too long.
    pub(crate) fn next_expiry(&self, now: Duration) -> Option<Duration> {
        let (since, _) = self.entries.front()?;
        let overloaded_at = self.empty_at + limits::QUEUE_PATIENCE;
        let calm = *since + limits::QUEUE_PATIENCE;
        let tense = overloaded_at.max(*since + limits::QUEUE_PATIENCE_OVERLOADED);
        Some(if self.is_overloaded(now) { tense } else { calm.min(tense) })
    }

    fn is_overloaded(&self, now: Duration) -> bool {
        !self.entries.is_empty() && now.saturating_sub(self.empty_at) >= limits::QUEUE_PATIENCE
    }

    fn patience(&self, now: Duration) -> Duration {
        match self.is_overloaded(now) {
            true => limits::QUEUE_PATIENCE_OVERLOADED,
            false => limits::QUEUE_PATIENCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn calls_run_in_order_while_the_queue_empties_now_and_then() {
        let mut queue = Queue::new(8);
        for call in 0..3 {
            assert_eq!(queue.push(call, ms(call)), None);
        }
        assert_eq!(queue.pop(ms(10)), Some((ms(10), 0)));
        assert_eq!(queue.pop(ms(11)), Some((ms(10), 1)));
        assert_eq!(queue.pop(ms(12)), Some((ms(10), 2)));
        assert_eq!(queue.pop(ms(12)), None);
    }

    #[test]
    fn a_standing_queue_serves_the_newest_first_and_sheds_the_old() {
        let mut queue = Queue::new(8);
        for call in 0..4 {
            queue.push(call, ms(call));
        }
        // Kept from emptying for the whole patience of a calm queue.
        queue.pop(ms(50));
        queue.push(9, ms(120));
        assert_eq!(queue.pop(ms(121)), Some((ms(1), 9)));
        let shed: Vec<_> = std::iter::from_fn(|| queue.pop_expired(ms(121))).collect();
        assert_eq!(shed, [1, 2, 3]);
        assert!(queue.is_empty());
        // Empty once, it is calm again.
        queue.push(10, ms(122));
        queue.push(11, ms(123));
        assert_eq!(queue.pop(ms(140)), Some((ms(18), 10)));
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let mut queue = Queue::new(2);
        assert_eq!(queue.push(0, ms(0)), None);
        assert_eq!(queue.push(1, ms(0)), None);
        assert_eq!(queue.push(2, ms(0)), Some(0));
        assert_eq!(queue.entries.len(), 2);
        assert_eq!(Queue::new(0).push(7, ms(0)), Some(7));
    }

    #[test]
    fn the_next_expiry_is_when_one_expires() {
        let mut queue = Queue::new(8);
        assert_eq!(queue.next_expiry(ms(0)), None);
        queue.push(0, ms(5));
        let due = queue.next_expiry(ms(6)).expect("one waits");
        assert_eq!(queue.pop_expired(due - ms(1)), None);
        assert_eq!(queue.pop_expired(due), Some(0));
    }
}
