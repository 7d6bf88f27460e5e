//! The queue of calls that wait in a pool for room on a connection.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::load_balancer::EndpointId;
use crate::limits;
use crate::policy::{Inflow, Pace};

/// The key of a waiting call. Lower keys came earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct WaiterKey(u64);

/// Why and how long somebody waits.
pub(super) struct WaitArgs {
    pub(super) waker: Waker,
    /// When it is woken whatever happens.
    pub(super) until: Option<Instant>,
    pub(super) awaited: Awaited,
    /// Whether the call stays in the queue even if no server can be reached.
    pub(super) is_patient: bool,
}

/// The event that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaited {
    /// A connection with room.
    Room,
    /// A connection to this endpoint, which is being made.
    Endpoint(EndpointId),
    /// A connection to any endpoint that is being connected to.
    AnyEndpoint,
}

struct Waiter {
    key: WaiterKey,
    /// None from the moment that it is woken until it has come.
    waker: Option<Waker>,
    standing: Standing,
    is_patient: bool,
    since: Instant,
    wake_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The call waits for room.
    Waiting,
    /// The call was told at this time to be sent, and has not done so yet.
    Called(Instant),
    /// The call does not block others: it waits for endpoints, or did not react when it was told to.
    Apart(Awaited),
    /// The call is to fail, because it has waited too long for servers that have too much to do.
    Shed,
}

impl Waiter {
    fn is_waiting(&self) -> bool {
        self.standing == Standing::Waiting
    }
}

/// The waiting calls, in their order of arrival. They are served in that order while it is fast enough
/// for new arrivals; otherwise the newest is served first, because the oldest would mostly be answered
/// too late. Those are refused soon, as a server's queue does it, if the servers have told that they are at their limit.
#[derive(Default)]
pub(super) struct WaitQueue {
    /// The waiting calls, sorted by key.
    waiters: VecDeque<Waiter>,
    next: u64,
    called: usize,
    apart: usize,
    /// The number of calls that wait for room and are not patient.
    impatient: usize,
    /// No call with a lower key waits for room.
    none_before: WaiterKey,
    /// The calls that were told to be sent, and when, while they have time to react. They are at most as
    /// many as there was room for in that time.
    calls: VecDeque<(WaiterKey, Instant)>,
    /// A lower bound of all `wake_at`.
    earliest: Option<Instant>,
    /// How fast calls are sent after they were told to, in time since `origin`.
    pace: Pace,
    inflow: Inflow,
    origin: Option<Instant>,
    /// Whether calls come faster than servers take them that have told how many they take. It ends with the flood, or the
    /// queue.
    is_overloaded: bool,
}

impl WaitQueue {
    /// The number of calls that wait for room and were not told to be sent.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiters.len() - self.called - self.apart
    }

    /// The number of calls that were told to be sent and have not been.
    #[inline]
    pub(super) fn called(&self) -> usize {
        self.called
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty() && (self.called, self.apart, self.impatient) == (0, 0, 0)
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiters.len() >= limits::WAITING_CALLS_MAX
    }

    /// Whether the call was told to be sent, or is apart.
    pub(super) fn may_go(&self, key: WaiterKey) -> bool {
        self.find(key).is_some_and(|at| !self.waiters[at].is_waiting())
    }

    /// Adds a call to the queue, or updates one that waits again. The returned waker must be dropped
    /// outside of the borrow.
    pub(super) fn wait(
        &mut self,
        key: Option<WaiterKey>,
        wait: WaitArgs,
        now: Instant,
    ) -> (WaiterKey, Option<Waker>) {
        let WaitArgs { waker, until, awaited, is_patient } = wait;
        self.earliest = self.earliest.into_iter().chain(until).min();
        let standing = match awaited {
            Awaited::Room => Standing::Waiting,
            endpoint => Standing::Apart(endpoint),
        };
        if let Some((key, at)) = key.and_then(|key| Some((key, self.find(key)?))) {
            self.stand(at, standing);
            let waiter = &mut self.waiters[at];
            waiter.wake_at = until;
            return (key, waiter.waker.replace(waker));
        }
        let key = WaiterKey(self.next);
        self.next += 1;
        if self.waiters.is_empty() {
            let now = self.since_origin(now);
            self.pace.begin(now);
        }
        if self.waiting() == 0 {
            let now = self.since_origin(now);
            self.inflow.begin(now);
            self.is_overloaded = false;
        }
        self.inflow.came();
        self.count(standing, is_patient, 1);
        let (waker, wake_at, since) = (Some(waker), until, now);
        self.waiters.push_back(Waiter { key, waker, standing, is_patient, since, wake_at });
        (key, None)
    }

    /// Removes a call that was sent. The returned waker must be dropped outside of the borrow.
    pub(super) fn serve(&mut self, key: WaiterKey, now: Instant) -> Option<Waker> {
        let at = self.find(key)?;
        let now = self.since_origin(now);
        if let Standing::Called(_) = self.waiters[at].standing {
            self.pace.served(now);
        }
        self.inflow.served(now); // as all have come
        self.remove(at)
    }

    /// Removes a call that was not sent. The returned waker must be dropped outside of the borrow.
    pub(super) fn give_up(&mut self, key: WaiterKey) -> Option<Waker> {
        let at = self.find(key)?;
        self.remove(at)
    }

    fn remove(&mut self, at: usize) -> Option<Waker> {
        let waiter = self.waiters.remove(at)?;
        self.count(waiter.standing, waiter.is_patient, -1);
        waiter.waker
    }

    fn stand(&mut self, at: usize, standing: Standing) {
        let waiter = &mut self.waiters[at];
        let (former, is_patient) =
            (std::mem::replace(&mut waiter.standing, standing), waiter.is_patient);
        if waiter.is_waiting() {
            self.none_before = self.none_before.min(waiter.key);
        }
        self.count(former, is_patient, -1);
        self.count(standing, is_patient, 1);
    }

    fn count(&mut self, standing: Standing, is_patient: bool, change: isize) {
        let count = match standing {
            Standing::Called(_) => &mut self.called,
            Standing::Apart(_) | Standing::Shed => &mut self.apart,
            Standing::Waiting if is_patient => return,
            Standing::Waiting => &mut self.impatient,
        };
        *count = count.checked_add_signed(change).expect("each is counted once");
    }

    /// Tells the next call to be sent: the oldest, or the newest if the queue is too slow.
    pub(super) fn call_next(&mut self, now: Instant) -> Option<Waker> {
        if self.waiting() == 0 {
            return None;
        }
        let latest = self.waiters.iter().rposition(Waiter::is_waiting)?;
        let at = match self.serves_latest(latest, now) {
            true => latest,
            false => self.first_in_time(latest, now),
        };
        self.stand(at, Standing::Called(now));
        let waiter = &mut self.waiters[at];
        self.calls.push_back((waiter.key, now));
        waiter.waker.take()
    }

    /// Sets calls apart that did not react when they were told to be sent, because their tasks are busy
    /// otherwise. They may still be sent if there is room when they react.
    pub(super) fn pass_over(&mut self, now: Instant) {
        while let Some(&(key, called)) = self.calls.front() {
            let at = self.find(key);
            let at = at.filter(|at| self.waiters[*at].standing == Standing::Called(called));
            if at.is_some() && now < called + limits::TURN_KEPT {
                return;
            }
            self.calls.pop_front();
            at.into_iter().for_each(|at| self.stand(at, Standing::Apart(Awaited::Room)));
        }
    }

    /// The time at which calls may have to be [passed over](Self::pass_over).
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.calls.front().map(|(_, called)| *called + limits::TURN_KEPT)
    }

    /// Wakes all impatient calls that wait for room, because no server can be reached. They are set apart
    /// until they react.
    pub(super) fn dismiss(&mut self, woken: &mut Vec<Waker>) {
        if self.impatient == 0 {
            return;
        }
        for at in 0..self.waiters.len() {
            if self.waiters[at].is_waiting() && !self.waiters[at].is_patient {
                self.stand(at, Standing::Apart(Awaited::Room));
                woken.extend(self.waiters[at].waker.take());
            }
        }
    }

    /// Looks whether more calls come than can be served, where servers have told that they take no more: then the
    /// oldest are [shed](Self::shed).
    pub(super) fn look_at_load(&mut self, are_leased: bool, now: Instant) {
        let patience = are_leased.then(|| self.patience(now)).flatten();
        self.is_overloaded = patience.is_some_and(|patience| {
            self.is_overloaded && self.inflow.is_flood()
                || self.inflow.is_too_much(self.waiting(), patience)
        });
    }

    /// The longest time that one of the newest waiting calls has left: some of them may be in a hurry.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let newest = self.waiters.iter().rev().filter(|waiter| waiter.is_waiting());
        let left = |waiter: &Waiter| {
            waiter.wake_at.map_or(Duration::MAX, |until| until.saturating_duration_since(now))
        };
        newest.take(limits::NEWEST_ASKED).map(left).max()
    }

    /// Wakes calls that an overloaded queue keeps no longer. They fail when they react.
    pub(super) fn shed(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        while self.shed_at(now).is_some_and(|at| at <= now) {
            let oldest = self.first_waiting(self.waiters.len() - 1);
            self.stand(oldest, Standing::Shed);
            woken.extend(self.waiters[oldest].waker.take());
        }
    }

    /// When the next call is to be [shed](Self::shed), as it seems at `now`.
    pub(super) fn shed_at(&self, now: Instant) -> Option<Instant> {
        if !self.is_overloaded || self.waiting() <= self.inflow.keeps(self.patience(now)?) {
            return None;
        }
        let from = self.waiters.partition_point(|waiter| waiter.key < self.none_before);
        let oldest = self.waiters.range(from..).find(|waiter| waiter.is_waiting());
        oldest.map(|oldest| oldest.since + limits::OVERLOADED_WAIT)
    }

    /// How long a call has waited that is to fail, because it was [shed](Self::shed).
    pub(super) fn has_shed(&self, key: WaiterKey, now: Instant) -> Option<Duration> {
        let waiter = &self.waiters[self.find(key)?];
        let is_shed = waiter.standing == Standing::Shed;
        is_shed.then(|| now.saturating_duration_since(waiter.since))
    }

    /// The oldest call that has a fair part of the newest call's time left. Those with less would be
    /// answered too late.
    fn first_in_time(&mut self, latest: usize, now: Instant) -> usize {
        let first = self.first_waiting(latest);
        let left = |at: usize| match self.waiters[at].wake_at {
            Some(until) => until.saturating_duration_since(now),
            None => Duration::MAX,
        };
        let enough = left(latest) / limits::LEFT_PART_MIN;
        if left(first) >= enough {
            return first;
        }
        // Older calls mostly have less time left; where that is not so, the call that is found is as
        // good.
        let is_late = |waiter: &Waiter| {
            waiter.wake_at.is_some_and(|until| until.saturating_duration_since(now) < enough)
        };
        let in_time = self.waiters.partition_point(is_late).max(first);
        let goes = |at: &usize| self.waiters[*at].is_waiting() && left(*at) >= enough;
        (in_time..latest).take(limits::WAITERS_SEARCHED_MAX).find(goes).unwrap_or(latest)
    }

    /// The oldest call that waits for room.
    fn first_waiting(&mut self, latest: usize) -> usize {
        let from = self.waiters.partition_point(|waiter| waiter.key < self.none_before);
        let first = (from..latest).find(|at| self.waiters[*at].is_waiting()).unwrap_or(latest);
        self.none_before = self.waiters[first].key;
        first
    }

    fn serves_latest(&mut self, latest: usize, now: Instant) -> bool {
        if self.is_overloaded {
            return true;
        }
        let Some(deadline) = self.waiters[latest].wake_at else { return false };
        let patience = deadline.saturating_duration_since(now);
        let now = self.since_origin(now);
        self.pace.is_hopeless(self.waiting(), patience, now)
    }

    fn since_origin(&mut self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.origin.get_or_insert(now))
    }

    /// The earliest time at which a call is woken in any case.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Wakes calls whose time has come. They are set apart and stay in the queue until they leave it
    /// themselves.
    pub(super) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for at in 0..self.waiters.len() {
            match self.waiters[at].wake_at {
                Some(until) if until <= now => {
                    if self.waiters[at].standing != Standing::Shed {
                        self.stand(at, Standing::Apart(Awaited::Room));
                    }
                    let waiter = &mut self.waiters[at];
                    waiter.wake_at = None;
                    woken.extend(waiter.waker.take());
                }
                until => earliest = earliest.into_iter().chain(until).min(),
            }
        }
        self.earliest = earliest;
    }

    /// Wakes those who wait for the endpoint, or for any.
    pub(super) fn wake_owned(&mut self, endpoint: Option<EndpointId>, woken: &mut Vec<Waker>) {
        if self.apart == 0 {
            return;
        }
        let waits = |waiter: &&mut Waiter| match waiter.standing {
            Standing::Apart(Awaited::AnyEndpoint) => true,
            Standing::Apart(Awaited::Endpoint(owner)) => {
                endpoint.is_none_or(|endpoint| endpoint == owner)
            }
            _ => false,
        };
        woken.extend(self.waiters.iter_mut().filter(waits).filter_map(|it| it.waker.take()));
    }

    /// Empties the queue because the pool is closed. The keys resolve to nothing afterwards.
    pub(super) fn dissolve(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.waiters.drain(..).filter_map(|waiter| waiter.waker));
        (self.called, self.apart, self.impatient) = (0, 0, 0);
        self.calls.clear();
        self.earliest = None;
    }

    fn find(&self, key: WaiterKey) -> Option<usize> {
        self.waiters.binary_search_by_key(&key, |waiter| waiter.key).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn until(until: Option<Instant>) -> WaitArgs {
        WaitArgs { waker: Waker::noop().clone(), until, awaited: Awaited::Room, is_patient: false }
    }

    fn for_room() -> WaitArgs {
        until(None)
    }

    fn for_host(host: EndpointId) -> WaitArgs {
        WaitArgs { awaited: Awaited::Endpoint(host), ..for_room() }
    }

    #[test]
    fn waiters_are_served_in_order_and_kept_by_those_who_come_back() {
        let now = Instant::now();
        let mut queue = WaitQueue::default();
        let [a, b, c] = std::array::from_fn(|_| queue.wait(None, for_room(), now).0);
        assert!(queue.call_next(now).is_some() && queue.may_go(a) && !queue.may_go(b));
        assert_eq!((queue.waiting(), queue.called()), (2, 1));
        let again = queue.wait(Some(a), for_room(), now).0;
        assert_eq!(again, a, "it found no room after all");
        assert_eq!((queue.waiting(), queue.called()), (3, 0));
        queue.serve(a, now);
        assert!(queue.call_next(now).is_some() && queue.may_go(b));
        queue.serve(b, now);
        assert!(queue.serve(b, now).is_none());
        assert_eq!((queue.waiting(), queue.called()), (1, 0));
        queue.serve(c, now);
        assert!(queue.call_next(now).is_none());
    }

    #[test]
    fn whoever_waits_for_a_host_is_in_nobodys_way() {
        let now = Instant::now();
        let mut queue = WaitQueue::default();
        let (host, other) = (EndpointId(1), EndpointId(2));
        let apart = queue.wait(None, for_host(host), now).0;
        assert_eq!(queue.waiting(), 0);
        assert!(queue.may_go(apart) && queue.call_next(now).is_none());
        let behind = queue.wait(None, for_room(), now).0;
        assert!(queue.call_next(now).is_some() && queue.may_go(behind));
        // The call waits for room instead, then for a host again.
        assert_eq!(queue.wait(Some(apart), for_room(), now).0, apart);
        assert_eq!((queue.waiting(), queue.may_go(apart)), (1, false));
        let told = [Some(host), Some(other), None].map(|changed| {
            queue.wait(Some(apart), for_host(host), now);
            let mut woken = Vec::new();
            queue.wake_owned(changed, &mut woken);
            queue.wake_owned(changed, &mut woken); // whoever was woken already is not again
            woken.len()
        });
        assert_eq!((told, queue.waiting()), ([1, 0, 1], 0));
        queue.serve(apart, now);
        queue.serve(behind, now);
        assert_eq!((queue.waiting(), queue.called()), (0, 0));
    }

    #[test]
    fn time_wakes_each_once_and_nobody_waits_behind_them() {
        let start = Instant::now();
        let mut queue = WaitQueue::default();
        for wait in [Some(3), None, Some(1), Some(2)] {
            queue.wait(None, until(wait.map(|wait| start + wait * MS)), start);
        }
        assert!(queue.call_next(start).is_some(), "one of them is called before");
        let mut woken = Vec::new();
        let mut told = Vec::new();
        while let Some(at) = queue.earliest() {
            queue.expire(at, &mut woken);
            told.push(((at - start).as_millis(), woken.len()));
        }
        assert_eq!(told, [(1, 1), (2, 2), (3, 2)]);
        assert_eq!((queue.waiting(), queue.called(), queue.apart), (1, 0, 3));
        assert!(queue.call_next(start + 3 * MS).is_some(), "whoever has time");
        assert_eq!((queue.waiting(), queue.called(), queue.apart), (0, 1, 3));
    }

    #[test]
    fn whoever_does_not_come_when_called_is_passed_over() {
        let start = Instant::now();
        let mut queue = WaitQueue::default();
        let [a, b, c] = std::array::from_fn(|_| queue.wait(None, for_room(), start).0);
        assert!(queue.call_next(start).is_some() && queue.call_next(start).is_some());
        queue.wait(Some(b), for_room(), start);
        assert!(queue.call_next(start + MS).is_some(), "b again, a little later");
        let soon = start + limits::TURN_KEPT;
        assert_eq!(queue.overdue(), Some(soon));
        queue.pass_over(soon);
        assert_eq!((queue.waiting(), queue.called(), queue.apart), (1, 1, 1));
        assert_eq!(queue.overdue(), Some(soon + MS));
        queue.serve(b, soon);
        queue.pass_over(soon);
        assert_eq!(queue.overdue(), None, "nobody is called");
        assert!(queue.may_go(a) && !queue.may_go(c));
        queue.wait(Some(a), for_room(), soon);
        assert!(queue.call_next(soon).is_some() && queue.may_go(a), "it is the first again");
        assert_eq!((queue.waiting(), queue.called(), queue.apart), (1, 1, 0));
    }

    #[test]
    fn who_stands_apart_or_was_called_hides_nobody() {
        let (now, host) = (Instant::now(), EndpointId(1));
        for waiters in 1..40 {
            for skipped in 0..1_u64 << waiters.min(10) {
                let mut queue = WaitQueue::default();
                let is_apart = |at: usize| skipped >> (at % 10) & 1 == 1;
                let wait = |at| if is_apart(at) { for_host(host) } else { for_room() };
                let keys: Vec<_> =
                    (0..waiters).map(|at| queue.wait(None, wait(at), now).0).collect();
                let waiting = || (0..waiters).filter(|at| !is_apart(*at));
                for at in waiting() {
                    assert!(queue.call_next(now).is_some());
                    assert!(queue.may_go(keys[at]), "{at} of {waiters}, {skipped:b}");
                }
                assert!(queue.call_next(now).is_none());
                // The first of them found no room.
                if let Some(at) = waiting().next() {
                    queue.wait(Some(keys[at]), for_room(), now);
                    queue.wait(None, for_room(), now);
                    assert!(queue.call_next(now).is_some());
                    assert!(queue.may_go(keys[at]), "{at} of {waiters}, {skipped:b}");
                }
            }
        }
    }

    #[test]
    fn the_patient_stay_when_there_is_no_hope() {
        let now = Instant::now();
        let mut queue = WaitQueue::default();
        let patient = queue.wait(None, WaitArgs { is_patient: true, ..for_room() }, now).0;
        let other = queue.wait(None, for_room(), now).0;
        let mut woken = Vec::new();
        queue.dismiss(&mut woken);
        queue.dismiss(&mut woken);
        assert_eq!((woken.len(), queue.waiting(), queue.impatient), (1, 1, 0), "told once");
        assert!(queue.may_go(other) && !queue.may_go(patient));
        queue.wait(Some(other), for_room(), now);
        queue.dismiss(&mut woken);
        assert_eq!(woken.len(), 2, "there was hope meanwhile");
        queue.serve(other, now);
        queue.serve(patient, now);
        assert_eq!((queue.waiting(), queue.apart, queue.impatient), (0, 0, 0));
    }

    /// Simulates a server that takes one call each ms while `calls_each_ms` come, each with `patience`
    /// ms. Returns how many are sent with a tenth of their time left, and the order.
    fn serve(calls_each_ms: usize, patience: Option<u32>) -> (usize, Vec<WaiterKey>) {
        let start = Instant::now();
        let (mut queue, mut in_time, mut order) = (WaitQueue::default(), 0, Vec::new());
        let mut waiting: VecDeque<(WaiterKey, Instant)> = VecDeque::new();
        for ms in 0..5_000 {
            let now = start + ms * MS;
            for _ in 0..calls_each_ms {
                let until = patience.map(|patience| now + patience * MS);
                waiting.push_back((queue.wait(None, self::until(until), now).0, now));
            }
            while let (Some(patience), Some((key, since))) = (patience, waiting.front().copied())
                && since + patience * MS <= now
            {
                queue.give_up(key);
                waiting.pop_front();
            }
            queue.call_next(now).expect("many wait");
            let at = waiting.iter().rposition(|(key, _)| queue.may_go(*key));
            let (key, since) = waiting.remove(at.expect("one was called")).expect("it is there");
            queue.serve(key, now);
            let soon = patience.is_none_or(|patience| now - since <= patience * MS * 9 / 10);
            in_time += usize::from(soon);
            order.push(key);
        }
        (in_time, order)
    }

    #[test]
    fn the_latest_is_called_when_those_before_it_would_be_too_late() {
        for calls in [2, 4] {
            let (in_time, _) = serve(calls, Some(500));
            assert!(in_time >= 4_950, "{in_time} of 5,000 with {calls} calls each");
        }
        let (_, order) = serve(2, None);
        assert!(order.is_sorted(), "whoever can wait is served in order");
    }

    /// Simulates servers at their limit that take one call each ms, of which `comes` come. Returns how many were sent,
    /// shed and too late, and the longest wait of one that was shed.
    fn overload(comes: impl Fn(u32) -> u32, patience: u32) -> ([usize; 3], Duration) {
        let mut load = Load::default();
        for ms in 1..=4_000 {
            load.turn(ms, &vec![patience; comes(ms) as usize], true);
        }
        (load.ended, load.longest)
    }

    /// Calls that wait for servers at their limit.
    #[derive(Default)]
    struct Load {
        queue: WaitQueue,
        start: Option<Instant>,
        waiting: Vec<WaiterKey>,
        /// How many were sent, shed and too late.
        ended: [usize; 3],
        longest: Duration,
    }

    impl Load {
        /// Has calls come that have so many ms each, and one go if the servers take one.
        fn turn(&mut self, ms: u32, come: &[u32], takes_one: bool) {
            let queue = &mut self.queue;
            let now = *self.start.get_or_insert_with(Instant::now) + ms * MS;
            for patience in come {
                let key = queue.wait(None, until(Some(now + *patience * MS)), now).0;
                self.waiting.push(key);
            }
            let mut woken = Vec::new();
            queue.look_at_load(true, now);
            queue.shed(now, &mut woken);
            queue.expire(now, &mut woken);
            if takes_one {
                queue.call_next(now);
            }
            let Self { ended: [sent, shed, late], longest, .. } = self;
            self.waiting.retain(|key| {
                if let Some(waited) = queue.has_shed(*key, now) {
                    (*shed, *longest) = (*shed + 1, waited.max(*longest));
                    queue.give_up(*key);
                } else if !queue.may_go(*key) {
                    return true;
                } else if queue.find(*key).is_some_and(|at| queue.waiters[at].wake_at.is_none()) {
                    *late += 1;
                    queue.give_up(*key);
                } else {
                    *sent += 1;
                    queue.serve(*key, now);
                }
                false
            });
        }
    }

    #[test]
    fn what_servers_at_their_limit_cannot_take_is_refused_soon() {
        for (comes, patience) in [(4, 1_000), (2, 1_000), (4, 10_000)] {
            let ([sent, shed, late], longest) = overload(|_| comes, patience);
            assert!(sent >= 3_990 && late == 0, "{comes}, {patience}: {sent} sent, {late} late");
            assert!(
                shed + 4_000 + 500 >= 4_000 * comes as usize,
                "{comes}, {patience}: {shed} shed"
            );
            assert!(longest <= 100 * MS, "{comes}, {patience}: {longest:?}");
        }
    }

    #[test]
    fn who_can_be_served_in_time_is_not_refused() {
        let burst = overload(|ms| if ms == 1 { 2_000 } else { 0 }, 10_000);
        assert_eq!(burst.0, [2_000, 0, 0]);
        let in_turn = overload(|ms| if ms == 1 { 2_000 } else { 1 }, 10_000);
        assert_eq!(in_turn.0, [4_000, 0, 0]);
        // A quarter of their time is for those that wait, as before.
        let (long, _) = overload(|ms| if ms == 1 { 2_000 } else { 0 }, 1_000);
        assert!(long[0] >= 250 && long[2] == 0, "{long:?}");
    }

    #[test]
    fn nobody_is_refused_or_late_once_a_flood_is_over() {
        let mut load = Load::default();
        for ms in 1..=6_000 {
            load.turn(ms, if ms <= 500 { &[2_000; 4] } else { &[2_000] }, true);
            if ms == 1_000 {
                assert!(load.ended[1] > 1_000, "{:?}", load.ended);
                load.ended = [0; 3];
            }
        }
        assert_eq!(load.ended[1..], [0, 0], "callers in turn are served in order");
    }

    #[test]
    fn one_call_in_a_hurry_is_no_overload() {
        let mut load = Load::default();
        for ms in 1..=4_000 {
            match ms {
                1 => load.turn(ms, &[10_000; 2_000], true),
                500 => load.turn(ms, &[100], true),
                _ => load.turn(ms, &[10_000], true),
            }
        }
        assert_eq!(load.ended[1..], [0, 0]);
    }

    #[test]
    fn servers_that_were_slow_an_hour_ago_are_not_overloaded() {
        let mut load = Load::default();
        for ms in 1..=20_000 {
            load.turn(ms, if ms == 1 { &[1_000_000; 40] } else { &[] }, ms % 500 == 0);
        }
        assert_eq!(load.ended, [40, 0, 0]);
        for ms in 3_600_000..3_601_000 {
            load.turn(ms, if ms == 3_600_000 { &[1_000; 10] } else { &[] }, ms % 20 == 0);
        }
        assert_eq!(load.ended, [50, 0, 0]);
    }

    #[test]
    fn calls_that_are_sent_late_are_served_as_well() {
        let start = Instant::now();
        let mut queue = WaitQueue::default();
        let mut waiting: Vec<(WaiterKey, u32)> = Vec::new();
        for ms in 1..=1_000 {
            let now = start + ms * MS;
            for _ in 0..if ms == 1 { 400 } else { 1 } {
                let key = queue.wait(None, until(Some(now + 10_000 * MS)), now).0;
                waiting.push((key, u32::MAX));
            }
            queue.look_at_load(true, now);
            queue.call_next(now);
            queue.pass_over(now);
            waiting.retain_mut(|(key, goes_at)| {
                if queue.may_go(*key) && *goes_at == u32::MAX {
                    // Every other one is polled only after it was passed over.
                    *goes_at = if key.0 % 2 == 0 { ms } else { ms + 15 };
                }
                *goes_at > ms || queue.serve(*key, now).is_some()
            });
            assert!(!queue.is_overloaded, "after {ms} ms");
        }
        assert!(queue.waiting() <= 400);
    }

    #[test]
    fn who_gives_up_when_called_was_not_served() {
        let start = Instant::now();
        let mut queue = WaitQueue::default();
        queue.wait(None, for_room(), start);
        let mut now = start;
        while now < start + 2 * limits::PACE_WINDOW {
            now += MS;
            let key = queue.wait(None, until(Some(now + MS)), now).0;
            while !queue.may_go(key) {
                assert!(queue.call_next(now).is_some());
            }
            queue.give_up(key);
        }
        let waited = now - start;
        assert!(queue.pace.wait_of(10, waited) >= 10 * waited, "nothing was sent in all that time");
    }
}
