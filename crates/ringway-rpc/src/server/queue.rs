//! The queue of calls for one method: fair between connections, and of each connection in order while that serves
//! its calls in time, else newest first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits;
use crate::policy::Pace;

/// Calls that wait to run, the more urgent ones first. Among those of one priority, connections take turns: a
/// call stands behind one call of each other connection, however many they have made.
///
/// If the method has a limit, a call has to run within a certain time, which is short while the server is
/// overloaded: answers from behind a standing queue come too late anyway. If it has none, calls wait only
/// while earlier ones compute, and may wait until their deadlines.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    calls: BTreeMap<Place, QueueItem<T>>,
    /// The numbers of the calls, by priority and connection.
    by_owner: BTreeSet<(u8, Owner, u64)>,
    /// How many calls of a priority each connection has.
    counts: BTreeMap<(u8, Owner), usize>,
    /// The connection whose call ran last.
    served: Owner,
    /// The deadlines of the calls that have one, wherever they stand.
    deadlines: BTreeSet<(Duration, Place)>,
    /// The number of the call that came last.
    number: u64,
    /// The capacity. Without one, no call is shed.
    room: Option<usize>,
    /// The time that a call may wait while the queue does not empty.
    patience: Duration,
    /// The time at which the queue was last seen empty, or began to fill.
    empty_at: Duration,
    pace: Pace,
}

/// The place of a call: its priority, of which 0 runs first, and then its number. Only a few priorities
/// are ever in use.
type Place = (u8, u64);

/// The id of the connection that made a call.
type Owner = u64;

#[derive(Debug)]
struct QueueItem<T> {
    owner: Owner,
    since: Duration,
    deadline: Option<Duration>,
    call: T,
}

/// The connection, priority and deadline of a call that is queued.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Urgency {
    /// The id of the call's connection.
    pub(crate) owner: u64,
    /// Calls with higher numbers are shed first.
    pub(crate) priority: u8,
    /// The time at which the caller stops waiting.
    pub(crate) deadline: Option<Duration>,
}

/// A call that leaves the queue without running.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Overdue<T> {
    /// The call's deadline has passed.
    Expired(T),
    /// The call has waited for too long to be worth running.
    Shed(T),
}

impl<T> Queue<T> {
    /// A queue with `room` entries that sheds calls which wait too long. Without `room`, calls wait until
    /// their deadlines, and the caller bounds the queue.
    pub(crate) fn new(room: Option<usize>) -> Self {
        Self {
            calls: BTreeMap::new(),
            by_owner: BTreeSet::new(),
            counts: BTreeMap::new(),
            served: 0,
            deadlines: BTreeSet::new(),
            number: 0,
            room,
            patience: limits::QUEUE_PATIENCE_OVERLOADED,
            empty_at: Duration::ZERO,
            pace: Pace::default(),
        }
    }

    /// Adjusts the patience to the shortest service time: calls that take long may also wait longer.
    pub(crate) fn set_service(&mut self, least: Duration) {
        let most = limits::QUEUE_PATIENCE;
        self.patience = least.clamp(limits::QUEUE_PATIENCE_OVERLOADED, most);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The number of entries, including stale ones.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Adds a call. Call [`pop_beyond`](Self::pop_beyond) afterwards to shed one if the queue is over its
    /// capacity.
    pub(crate) fn push(&mut self, call: T, urgency: Urgency, now: Duration) {
        if self.calls.is_empty() {
            self.empty_at = now;
            self.pace.begin(now);
        }
        self.number += 1;
        let Urgency { owner, priority, deadline } = urgency;
        let place = (priority, self.number);
        self.calls.insert(place, QueueItem { owner, since: now, deadline, call });
        self.by_owner.insert((priority, owner, self.number));
        *self.counts.entry((priority, owner)).or_default() += 1;
        self.deadlines.extend(deadline.map(|deadline| (deadline, place)));
    }

    /// Removes one of the least urgent calls if the queue is over its capacity, where `gone` entries are stale
    /// and do not count: the oldest call of the connection that has the most of them, or the oldest of all.
    pub(crate) fn pop_beyond(&mut self, gone: usize, now: Duration) -> Option<T> {
        if self.room.is_none_or(|room| self.calls.len() <= room + gone) {
            return None;
        }
        let (&(least, _), _) = self.calls.last_key_value()?;
        let oldest = self.oldest_of_the_most(least)?;
        self.take((least, oldest), now).map(|oldest| oldest.call)
    }

    /// The oldest call of the connection that has the most calls of one priority. The oldest of all is preferred
    /// if its connection has as many as any.
    fn oldest_of_the_most(&self, priority: u8) -> Option<u64> {
        let counts = self.counts.range((priority, 0)..=(priority, Owner::MAX));
        let (&(_, owner), most) = counts.max_by_key(|&(_, count)| *count)?;
        let (&(_, oldest), first) = self.calls.range((priority, 0)..).next()?;
        if self.counts.get(&(priority, first.owner)) == Some(most) {
            return Some(oldest);
        }
        self.by_owner.range((priority, owner, 0)..).next().map(|&(.., number)| number)
    }

    /// Removes stale entries.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&T) -> bool, now: Duration) {
        let gone = self.calls.iter().filter(|(_, waiting)| !is_there(&waiting.call));
        let gone: Vec<_> = gone.map(|(place, _)| *place).collect();
        for place in gone {
            self.take(place, now);
        }
    }

    /// Removes the next call to run, and returns how long it has waited.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<(Duration, T)> {
        let place = self.next(self.serves_newest(now))?;
        let next = self.take(place, now)?;
        self.served = next.owner;
        self.pace.served(now);
        Some((now.saturating_sub(next.since), next.call))
    }

    /// The newest or the oldest of the most urgent calls of the connection whose turn it is.
    fn next(&self, serves_newest: bool) -> Option<Place> {
        let &(most, _) = self.calls.first_key_value()?.0;
        let after = self.served.saturating_add(1);
        let behind = self.by_owner.range((most, after, 0)..=(most, Owner::MAX, u64::MAX)).next();
        let &(_, owner, oldest) = match behind {
            Some(behind) => behind,
            None => self.by_owner.range((most, 0, 0)..).next()?,
        };
        let number = match serves_newest {
            true => self.by_owner.range(..=(most, owner, u64::MAX)).next_back()?.2,
            false => oldest,
        };
        Some((most, number))
    }

    /// Removes a call that has waited for too long.
    pub(crate) fn pop_overdue(&mut self, now: Duration) -> Option<Overdue<T>> {
        if let Some(&(deadline, place)) = self.deadlines.first()
            && deadline <= now
        {
            return self.take(place, now).map(|overdue| Overdue::Expired(overdue.call));
        }
        let is_due = |oldest: &QueueItem<T>| self.shed_at(oldest, now).is_some_and(|at| at <= now);
        let place = self.oldest().find(|(_, oldest)| is_due(oldest))?.0;
        self.take(place, now).map(|overdue| Overdue::Shed(overdue.call))
    }

    /// The time at which the next call will have waited for too long.
    pub(crate) fn next_overdue(&self, now: Duration) -> Option<Duration> {
        let shed_at = self.oldest().filter_map(|(_, oldest)| self.shed_at(oldest, now)).min();
        shed_at.into_iter().chain(self.next_deadline()).min()
    }

    /// The earliest deadline of all calls.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The oldest call of each priority.
    fn oldest(&self) -> impl Iterator<Item = (Place, &QueueItem<T>)> {
        let after = |priority: Option<u8>| {
            let (place, oldest) = match priority {
                None => self.calls.first_key_value()?,
                Some(priority) => self.calls.range((priority.checked_add(1)?, 0)..).next()?,
            };
            Some((*place, oldest))
        };
        std::iter::successors(after(None), move |((priority, _), _)| after(Some(*priority)))
    }

    /// The newest of the most urgent calls.
    fn newest(&self) -> Option<(&Place, &QueueItem<T>)> {
        let (&(most, _), _) = self.calls.first_key_value()?;
        self.calls.range(..=(most, u64::MAX)).next_back()
    }

    /// The time by which a call must have run, whatever its deadline.
    fn shed_at(&self, waiting: &QueueItem<T>, now: Duration) -> Option<Duration> {
        let since = waiting.since;
        self.room.map(|_| {
            let overloaded_at = self.empty_at + limits::QUEUE_PATIENCE;
            let tense = overloaded_at.max(since + self.patience);
            match self.is_standing(now) {
                true => tense,
                false => tense.min(since + limits::QUEUE_PATIENCE),
            }
        })
    }

    /// Whether the queue has not been empty for longer than its patience.
    fn is_standing(&self, now: Duration) -> bool {
        !self.calls.is_empty() && now.saturating_sub(self.empty_at) >= limits::QUEUE_PATIENCE
    }

    /// Whether calls that have waited longest would mostly be served too late.
    fn serves_newest(&self, now: Duration) -> bool {
        if self.room.is_some() {
            return self.is_standing(now);
        }
        let deadline = self.newest().and_then(|(_, newest)| newest.deadline);
        deadline.is_some_and(|deadline| {
            self.pace.is_hopeless(self.calls.len(), deadline.saturating_sub(now), now)
        })
    }

    fn take(&mut self, place: Place, now: Duration) -> Option<QueueItem<T>> {
        let taken = self.calls.remove(&place)?;
        let (priority, number) = place;
        self.by_owner.remove(&(priority, taken.owner, number));
        if let Entry::Occupied(mut count) = self.counts.entry((priority, taken.owner)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        if let Some(deadline) = taken.deadline {
            self.deadlines.remove(&(deadline, place));
        }
        if self.calls.is_empty() {
            self.empty_at = now;
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn push(queue: &mut Queue<u64>, call: u64, now: Duration) -> Option<u64> {
        queue.push(call, Urgency::default(), now);
        queue.pop_beyond(0, now)
    }

    #[test]
    fn calls_run_in_order_while_the_queue_empties_now_and_then() {
        let mut queue = Queue::new(Some(8));
        for call in 0..3 {
            assert_eq!(push(&mut queue, call, ms(call)), None);
        }
        assert_eq!(queue.pop(ms(10)), Some((ms(10), 0)));
        assert_eq!(queue.pop(ms(11)), Some((ms(10), 1)));
        assert_eq!(queue.pop(ms(12)), Some((ms(10), 2)));
        assert_eq!(queue.pop(ms(12)), None);
    }

    #[test]
    fn a_standing_queue_serves_the_newest_first_and_sheds_the_old() {
        let mut queue = Queue::new(Some(8));
        for call in 0..4 {
            push(&mut queue, call, ms(call));
        }
        // The queue does not empty for the whole patience.
        queue.pop(ms(50));
        push(&mut queue, 9, ms(120));
        assert_eq!(queue.pop(ms(121)), Some((ms(1), 9)));
        let shed: Vec<_> = std::iter::from_fn(|| queue.pop_overdue(ms(121))).collect();
        assert_eq!(shed, [1, 2, 3].map(Overdue::Shed));
        assert!(queue.is_empty());
        // Once it has been empty, it serves in order again.
        push(&mut queue, 10, ms(122));
        push(&mut queue, 11, ms(123));
        assert_eq!(queue.pop(ms(140)), Some((ms(18), 10)));
    }

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let mut queue = Queue::new(Some(2));
        assert_eq!(push(&mut queue, 0, ms(0)), None);
        assert_eq!(push(&mut queue, 1, ms(0)), None);
        assert_eq!(push(&mut queue, 2, ms(0)), Some(0));
        assert_eq!(queue.len(), 2);
        assert_eq!(push(&mut Queue::new(Some(0)), 7, ms(0)), Some(7));
    }

    #[test]
    fn those_that_are_gone_take_up_no_room_and_can_be_forgotten() {
        let mut queue = Queue::new(Some(2));
        for call in 0..4 {
            queue.push(call, Urgency { priority: call as u8 % 2, ..Urgency::default() }, ms(call));
        }
        assert_eq!(queue.pop_beyond(2, ms(4)), None);
        queue.retain(|call| *call >= 2, ms(5));
        assert_eq!((queue.len(), queue.pop_beyond(0, ms(5))), (2, None));
        assert_eq!(queue.pop_beyond(0, ms(5)), None);
        queue.retain(|_| false, ms(200));
        assert!(queue.is_empty() && queue.deadlines.is_empty());
        push(&mut queue, 7, ms(250));
        assert_eq!(queue.pop_overdue(ms(300)), None, "it has not stood since 0 ms");
    }

    #[test]
    fn the_next_overdue_is_when_one_is() {
        let mut queue = Queue::new(Some(8));
        assert_eq!(queue.next_overdue(ms(0)), None);
        push(&mut queue, 0, ms(5));
        let due = queue.next_overdue(ms(6)).expect("one waits");
        assert_eq!(queue.pop_overdue(due - MS), None);
        assert_eq!(queue.pop_overdue(due), Some(Overdue::Shed(0)));
    }

    #[test]
    fn higher_numbers_run_last_and_are_shed_first() {
        let mut queue = Queue::new(Some(4));
        let mut shed = Vec::new();
        for (call, priority) in [(0, 9), (1, 0), (2, 9), (3, 0), (4, 7), (5, 0), (6, 255)] {
            let urgency = Urgency { priority, ..Urgency::default() };
            queue.push(call, urgency, ms(call));
            shed.extend(queue.pop_beyond(0, ms(call)));
        }
        assert_eq!(shed, [0, 2, 6]);
        let run: Vec<_> = std::iter::from_fn(|| queue.pop(ms(9))).map(|(_, call)| call).collect();
        assert_eq!(run, [1, 3, 5, 4]);
    }

    /// Queues `count` calls of one connection, numbered from its id times 1,000.
    fn flood(queue: &mut Queue<u64>, owner: u64, count: u64, now: Duration) -> Vec<u64> {
        let calls = (0..count).filter_map(|call| {
            queue.push(owner * 1_000 + call, Urgency { owner, ..Urgency::default() }, now);
            queue.pop_beyond(0, now)
        });
        calls.collect()
    }

    #[test]
    fn a_call_stands_behind_one_call_of_each_other_connection() {
        let mut queue = Queue::new(None);
        for attacker in [1, 2, 3] {
            flood(&mut queue, attacker, 100, ms(0));
        }
        flood(&mut queue, 4, 2, ms(1));
        let run: Vec<_> = std::iter::from_fn(|| queue.pop(ms(2))).map(|(_, call)| call).collect();
        assert_eq!(run[..9], [1_000, 2_000, 3_000, 4_000, 1_001, 2_001, 3_001, 4_001, 1_002]);
        assert_eq!(run.len(), 302);
        assert!(queue.by_owner.is_empty() && queue.counts.is_empty());
    }

    #[test]
    fn a_standing_queue_serves_the_newest_of_each_connection_in_turn() {
        let mut queue = Queue::new(Some(64));
        flood(&mut queue, 7, 3, ms(0));
        flood(&mut queue, 8, 1, ms(1));
        flood(&mut queue, 7, 3, ms(119));
        let run: Vec<_> = std::iter::from_fn(|| queue.pop(ms(120))).map(|(_, call)| call).collect();
        assert_eq!(run[..4], [7_002, 8_000, 7_001, 7_000]);
    }

    #[test]
    fn the_connection_with_the_most_calls_makes_room() {
        let mut queue = Queue::new(Some(6));
        assert!(flood(&mut queue, 1, 2, ms(0)).is_empty());
        assert_eq!(flood(&mut queue, 2, 9, ms(1)), [2_000, 2_001, 2_002, 2_003, 2_004]);
        assert_eq!(flood(&mut queue, 3, 2, ms(2)), [2_005, 2_006]);
        assert_eq!(flood(&mut queue, 4, 1, ms(3)), [1_000], "all have two: the oldest goes");
    }

    #[test]
    fn a_queue_without_room_to_shed_waits_for_deadlines() {
        let mut queue = Queue::new(None);
        for call in 0..1_000 {
            let deadline = (call % 2 == 0).then(|| ms(300));
            queue.push(call, Urgency { deadline, ..Urgency::default() }, ms(0));
            assert_eq!(queue.pop_beyond(0, ms(0)), None);
        }
        assert_eq!(queue.next_overdue(ms(1)), Some(ms(300)));
        assert_eq!(queue.pop_overdue(ms(299)), None);
        let expired: Vec<_> = std::iter::from_fn(|| queue.pop_overdue(ms(300))).collect();
        assert_eq!(expired, (0..1_000).step_by(2).map(Overdue::Expired).collect::<Vec<_>>());
        assert_eq!((queue.len(), queue.pop(ms(300))), (500, Some((ms(300), 1))));
    }

    #[test]
    fn a_deadline_is_seen_whatever_stands_in_front() {
        for room in [None, Some(8)] {
            let mut queue = Queue::new(room);
            for (call, priority, deadline) in [(0, 0, None), (1, 0, Some(90)), (2, 7, Some(20))] {
                let urgency =
                    Urgency { priority, deadline: deadline.map(ms), ..Urgency::default() };
                queue.push(call, urgency, ms(0));
            }
            queue.push(3, Urgency { deadline: Some(ms(10)), ..Urgency::default() }, ms(1));
            for (at, call) in [(10, 3), (20, 2), (90, 1)] {
                assert_eq!(queue.next_overdue(ms(2)), Some(ms(at)));
                assert_eq!(queue.pop_overdue(ms(at) - MS), None);
                assert_eq!(queue.pop_overdue(ms(at)), Some(Overdue::Expired(call)));
            }
            assert_eq!((queue.next_deadline(), queue.len()), (None, 1));
        }
    }

    /// Simulates a server that takes 1 ms for each call. Each ms, `calls_each_ms` calls come, with a
    /// deadline of `deadline` ms. Returns how many are served with a tenth of their time left, and the
    /// longest wait.
    fn serve(calls_each_ms: usize, deadline: u64) -> (usize, Duration) {
        let (mut queue, mut in_time, mut longest) = (Queue::new(None), 0, Duration::ZERO);
        for now in 0..10_000 {
            for _ in 0..calls_each_ms {
                let urgency = Urgency { deadline: Some(ms(now + deadline)), ..Urgency::default() };
                queue.push((), urgency, ms(now));
            }
            while queue.pop_overdue(ms(now)).is_some() {}
            if let Some((waited, ())) = queue.pop(ms(now)) {
                in_time += usize::from(waited < ms(deadline * 9 / 10));
                longest = longest.max(waited);
            }
        }
        (in_time, longest)
    }

    #[test]
    fn what_cannot_be_served_in_order_and_in_time_is_served_newest_first() {
        let (in_time, longest) = serve(1, 1_000);
        assert!(in_time >= 9_990 && longest <= MS, "{in_time}, {longest:?}");
        for calls in [2, 4, 10] {
            let (in_time, _) = serve(calls, 1_000);
            assert!(in_time >= 9_800, "{in_time} of 10,000 with {calls} calls each");
        }
    }
}
