//! Calls that wait in a pool: for room on a connection, or for a moment.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::spread::HostId;
use crate::limits;
use crate::policy::Pace;

/// A place in a line. Lower ones are served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Ticket(u64);

/// What a place is entered or taken up again with.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) waker: &'a Waker,
    /// When it is woken whatever happens.
    pub(super) until: Option<Instant>,
    /// Not for room: for this host, which is being connected to.
    pub(super) owner: Option<HostId>,
    /// It stays although nobody can say whether there will ever be room.
    pub(super) is_patient: bool,
}

struct Place {
    ticket: Ticket,
    waker: Waker,
    standing: Standing,
    is_patient: bool,
    wake_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It waits for room.
    Waiting,
    /// It was told at that moment to go on, and has not done so yet.
    Called(Instant),
    /// It is in nobody's way: it waits for a host, or did not come when it was told to.
    Apart(Option<HostId>),
}

impl Place {
    fn is_waiting(&self) -> bool {
        self.standing == Standing::Waiting
    }
}

/// Who waits, in the order of their coming. They are called in it as long as that is soon enough for
/// those who come now; otherwise the latest is called first, since those who have waited long would
/// mostly be answered too late.
#[derive(Default)]
pub(super) struct Line {
    /// In the order of their tickets.
    places: VecDeque<Place>,
    next: u64,
    called: usize,
    apart: usize,
    /// Those who wait for room and are not patient.
    impatient: usize,
    /// Nobody with a lower ticket waits for room.
    none_before: Ticket,
    /// Who was called and when, for as long as they have time to come: as many as there was room for
    /// in that time.
    calls: VecDeque<(Ticket, Instant)>,
    /// No `wake_at` is before this one.
    earliest: Option<Instant>,
    /// How fast those who were called go on, in time since this.
    pace: Pace,
    origin: Option<Instant>,
}

impl Line {
    /// Those who wait for room and were not told to go on.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.places.len() - self.called - self.apart
    }

    /// Those who were told to go on and have not done so yet.
    #[inline]
    pub(super) fn called(&self) -> usize {
        self.called
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && (self.called, self.apart, self.impatient) == (0, 0, 0)
    }

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= limits::WAITING_CALLS_MAX
    }

    /// Whether the place was called, or stands apart.
    pub(super) fn may_go(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_some_and(|at| !self.places[at].is_waiting())
    }

    /// Enters the line, or takes up the same place again; with what is to be dropped when the line is
    /// no longer borrowed.
    pub(super) fn wait(
        &mut self,
        ticket: Option<Ticket>,
        wait: Wait<'_>,
        now: Instant,
    ) -> (Ticket, Option<Waker>) {
        let Wait { waker, until, owner, is_patient } = wait;
        self.earliest = self.earliest.into_iter().chain(until).min();
        let standing = match owner {
            Some(_) => Standing::Apart(owner),
            None => Standing::Waiting,
        };
        if let Some((ticket, at)) = ticket.and_then(|ticket| Some((ticket, self.find(ticket)?))) {
            self.stand(at, standing);
            let place = &mut self.places[at];
            let is_new = !place.waker.will_wake(waker);
            let former = is_new.then(|| std::mem::replace(&mut place.waker, waker.clone()));
            place.wake_at = until;
            return (ticket, former);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        if self.places.is_empty() {
            let now = self.since_origin(now);
            self.pace.begin(now);
        }
        self.count(standing, is_patient, 1);
        let waker = waker.clone();
        self.places.push_back(Place { ticket, waker, standing, is_patient, wake_at: until });
        (ticket, None)
    }

    /// Leaves the line; what is to be dropped when the line is no longer borrowed.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Instant) -> Option<Waker> {
        let at = self.find(ticket)?;
        let place = self.places.remove(at)?;
        self.count(place.standing, place.is_patient, -1);
        if let Standing::Called(_) = place.standing {
            let now = self.since_origin(now);
            self.pace.served(now);
        }
        Some(place.waker)
    }

    fn stand(&mut self, at: usize, standing: Standing) {
        let place = &mut self.places[at];
        let (former, is_patient) =
            (std::mem::replace(&mut place.standing, standing), place.is_patient);
        if place.is_waiting() {
            self.none_before = self.none_before.min(place.ticket);
        }
        self.count(former, is_patient, -1);
        self.count(standing, is_patient, 1);
    }

    fn count(&mut self, standing: Standing, is_patient: bool, change: isize) {
        let count = match standing {
            Standing::Called(_) => &mut self.called,
            Standing::Apart(_) => &mut self.apart,
            Standing::Waiting if is_patient => return,
            Standing::Waiting => &mut self.impatient,
        };
        *count = count.checked_add_signed(change).expect("each is counted once");
    }

    /// Tells the first who waits to go on, or the latest.
    pub(super) fn call_next(&mut self, now: Instant) -> Option<Waker> {
        if self.waiting() == 0 {
            return None;
        }
        let latest = self.places.iter().rposition(Place::is_waiting)?;
        let at = match self.serves_latest(latest, now) {
            true => latest,
            false => self.first_in_time(latest, now),
        };
        self.stand(at, Standing::Called(now));
        let place = &self.places[at];
        self.calls.push_back((place.ticket, now));
        Some(place.waker.clone())
    }

    /// Sets those apart who were called a while ago and have not come: whoever awaits them does
    /// something else. When they come after all, they go on if there is room, or wait again.
    pub(super) fn pass_over(&mut self, now: Instant) {
        while let Some(&(ticket, called)) = self.calls.front() {
            let at = self.find(ticket);
            let at = at.filter(|at| self.places[*at].standing == Standing::Called(called));
            if at.is_some() && now < called + limits::TURN_KEPT {
                return;
            }
            self.calls.pop_front();
            at.into_iter().for_each(|at| self.stand(at, Standing::Apart(None)));
        }
    }

    /// When somebody may have to be [passed over](Self::pass_over).
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.calls.front().map(|(_, called)| *called + limits::TURN_KEPT)
    }

    /// Wakes all who wait for room that may never be, but for the patient. They stand apart until they
    /// have come.
    pub(super) fn dismiss(&mut self, woken: &mut Vec<Waker>) {
        if self.impatient == 0 {
            return;
        }
        for at in 0..self.places.len() {
            if self.places[at].is_waiting() && !self.places[at].is_patient {
                self.stand(at, Standing::Apart(None));
                woken.push(self.places[at].waker.clone());
            }
        }
    }

    /// The first who has a fair part left of the time that the latest has: for those with less it is
    /// too late to be answered in it.
    fn first_in_time(&mut self, latest: usize, now: Instant) -> usize {
        let first = self.first_waiting(latest);
        let left = |at: usize| match self.places[at].wake_at {
            Some(until) => until.saturating_duration_since(now),
            None => Duration::MAX,
        };
        let enough = left(latest) / limits::LEFT_PART_MIN;
        if left(first) >= enough {
            return first;
        }
        // Those who have come first mostly have least left; where that is not so, whoever is found
        // may be served as well.
        let is_late = |place: &Place| {
            place.wake_at.is_some_and(|until| until.saturating_duration_since(now) < enough)
        };
        let in_time = self.places.partition_point(is_late).max(first);
        let goes = |at: &usize| self.places[*at].is_waiting() && left(*at) >= enough;
        (in_time..latest).take(limits::PLACES_LOOKED_AT).find(goes).unwrap_or(latest)
    }

    /// The first who waits for room, as the latest does.
    fn first_waiting(&mut self, latest: usize) -> usize {
        let from = self.places.partition_point(|place| place.ticket < self.none_before);
        let first = (from..latest).find(|at| self.places[*at].is_waiting()).unwrap_or(latest);
        self.none_before = self.places[first].ticket;
        first
    }

    fn serves_latest(&mut self, latest: usize, now: Instant) -> bool {
        let Some(deadline) = self.places[latest].wake_at else { return false };
        let patience = deadline.saturating_duration_since(now);
        let now = self.since_origin(now);
        self.pace.is_hopeless(self.waiting(), patience, now)
    }

    fn since_origin(&mut self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.origin.get_or_insert(now))
    }

    /// When somebody is to be woken whatever happens.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Wakes whose time has come. They stand apart then, and keep their places until they leave them.
    pub(super) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for at in 0..self.places.len() {
            match self.places[at].wake_at {
                Some(until) if until <= now => {
                    self.stand(at, Standing::Apart(None));
                    let place = &mut self.places[at];
                    place.wake_at = None;
                    woken.push(place.waker.clone());
                }
                until => earliest = earliest.into_iter().chain(until).min(),
            }
        }
        self.earliest = earliest;
    }

    /// Wakes those who wait for the host, or for any.
    pub(super) fn tell_owned(&self, host: Option<HostId>, woken: &mut Vec<Waker>) {
        if self.apart == 0 {
            return;
        }
        let waits = |place: &&Place| match place.standing {
            Standing::Apart(Some(owner)) => host.is_none_or(|host| host == owner),
            _ => false,
        };
        woken.extend(self.places.iter().filter(waits).map(|place| place.waker.clone()));
    }

    /// Sends everybody away, to be woken: there is nothing to wait for any more. Their tickets name
    /// nothing then.
    pub(super) fn dissolve(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.places.drain(..).map(|place| place.waker));
        (self.called, self.apart, self.impatient) = (0, 0, 0);
        self.calls.clear();
        self.earliest = None;
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.places.binary_search_by_key(&ticket, |place| place.ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn until(until: Option<Instant>) -> Wait<'static> {
        Wait { waker: Waker::noop(), until, owner: None, is_patient: false }
    }

    fn for_room() -> Wait<'static> {
        until(None)
    }

    fn for_host(host: HostId) -> Wait<'static> {
        Wait { owner: Some(host), ..for_room() }
    }

    #[test]
    fn places_are_served_in_order_and_kept_by_those_who_come_back() {
        let now = Instant::now();
        let mut line = Line::default();
        let [a, b, c] = std::array::from_fn(|_| line.wait(None, for_room(), now).0);
        assert!(line.call_next(now).is_some() && line.may_go(a) && !line.may_go(b));
        assert_eq!((line.waiting(), line.called()), (2, 1));
        let again = line.wait(Some(a), for_room(), now).0;
        assert_eq!(again, a, "it found no room after all");
        assert_eq!((line.waiting(), line.called()), (3, 0));
        line.leave(a, now);
        assert!(line.call_next(now).is_some() && line.may_go(b));
        line.leave(b, now);
        assert!(line.leave(b, now).is_none());
        assert_eq!((line.waiting(), line.called()), (1, 0));
        line.leave(c, now);
        assert!(line.call_next(now).is_none());
    }

    #[test]
    fn whoever_waits_for_a_host_is_in_nobodys_way() {
        let now = Instant::now();
        let mut line = Line::default();
        let (host, other) = (HostId::numbered(1), HostId::numbered(2));
        let apart = line.wait(None, for_host(host), now).0;
        assert_eq!(line.waiting(), 0);
        assert!(line.may_go(apart) && line.call_next(now).is_none());
        let behind = line.wait(None, for_room(), now).0;
        assert!(line.call_next(now).is_some() && line.may_go(behind));
        // It waits for room after all, and for a host again.
        assert_eq!(line.wait(Some(apart), for_room(), now).0, apart);
        assert_eq!((line.waiting(), line.may_go(apart)), (1, false));
        line.wait(Some(apart), for_host(host), now);
        let told = [Some(host), Some(other), None].map(|host| {
            let mut woken = Vec::new();
            line.tell_owned(host, &mut woken);
            woken.len()
        });
        assert_eq!((told, line.waiting()), ([1, 0, 1], 0));
        line.leave(apart, now);
        line.leave(behind, now);
        assert_eq!((line.waiting(), line.called()), (0, 0));
    }

    #[test]
    fn time_wakes_each_once_and_nobody_waits_behind_them() {
        let start = Instant::now();
        let mut line = Line::default();
        for wait in [Some(3), None, Some(1), Some(2)] {
            line.wait(None, until(wait.map(|wait| start + wait * MS)), start);
        }
        assert!(line.call_next(start).is_some(), "one of them is called before");
        let mut woken = Vec::new();
        let mut told = Vec::new();
        while let Some(at) = line.earliest() {
            line.expire(at, &mut woken);
            told.push(((at - start).as_millis(), woken.len()));
        }
        assert_eq!(told, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!((line.waiting(), line.called(), line.apart), (1, 0, 3));
        assert!(line.call_next(start + 3 * MS).is_some(), "whoever has time");
        assert_eq!((line.waiting(), line.called(), line.apart), (0, 1, 3));
    }

    #[test]
    fn whoever_does_not_come_when_called_is_passed_over() {
        let start = Instant::now();
        let mut line = Line::default();
        let [a, b, c] = std::array::from_fn(|_| line.wait(None, for_room(), start).0);
        assert!(line.call_next(start).is_some() && line.call_next(start).is_some());
        line.wait(Some(b), for_room(), start);
        assert!(line.call_next(start + MS).is_some(), "b again, a little later");
        let soon = start + limits::TURN_KEPT;
        assert_eq!(line.overdue(), Some(soon));
        line.pass_over(soon);
        assert_eq!((line.waiting(), line.called(), line.apart), (1, 1, 1));
        assert_eq!(line.overdue(), Some(soon + MS));
        line.leave(b, soon);
        line.pass_over(soon);
        assert_eq!(line.overdue(), None, "nobody is called");
        assert!(line.may_go(a) && !line.may_go(c));
        line.wait(Some(a), for_room(), soon);
        assert!(line.call_next(soon).is_some() && line.may_go(a), "it is the first again");
        assert_eq!((line.waiting(), line.called(), line.apart), (1, 1, 0));
    }

    #[test]
    fn who_stands_apart_or_was_called_hides_nobody() {
        let (now, host) = (Instant::now(), HostId::numbered(1));
        for places in 1..40 {
            for skipped in 0..1_u64 << places.min(10) {
                let mut line = Line::default();
                let is_apart = |at: usize| skipped >> (at % 10) & 1 == 1;
                let wait = |at| if is_apart(at) { for_host(host) } else { for_room() };
                let tickets: Vec<_> =
                    (0..places).map(|at| line.wait(None, wait(at), now).0).collect();
                let waiting = || (0..places).filter(|at| !is_apart(*at));
                for at in waiting() {
                    assert!(line.call_next(now).is_some());
                    assert!(line.may_go(tickets[at]), "{at} of {places}, {skipped:b}");
                }
                assert!(line.call_next(now).is_none());
                // The first of them found no room.
                if let Some(at) = waiting().next() {
                    line.wait(Some(tickets[at]), for_room(), now);
                    line.wait(None, for_room(), now);
                    assert!(line.call_next(now).is_some());
                    assert!(line.may_go(tickets[at]), "{at} of {places}, {skipped:b}");
                }
            }
        }
    }

    #[test]
    fn the_patient_stay_when_there_is_no_hope() {
        let now = Instant::now();
        let mut line = Line::default();
        let patient = line.wait(None, Wait { is_patient: true, ..for_room() }, now).0;
        let other = line.wait(None, for_room(), now).0;
        let mut woken = Vec::new();
        line.dismiss(&mut woken);
        line.dismiss(&mut woken);
        assert_eq!((woken.len(), line.waiting(), line.impatient), (1, 1, 0), "told once");
        assert!(line.may_go(other) && !line.may_go(patient));
        line.wait(Some(other), for_room(), now);
        line.dismiss(&mut woken);
        assert_eq!(woken.len(), 2, "there was hope meanwhile");
        line.leave(other, now);
        line.leave(patient, now);
        assert_eq!((line.waiting(), line.apart, line.impatient), (0, 0, 0));
    }

    /// A server that takes one call in each millisecond, while so many come and wait for as long as
    /// they say. How many get through with a tenth of their time left at least.
    fn serve(calls_each_ms: usize, patience: Option<u32>) -> (usize, Vec<Ticket>) {
        let start = Instant::now();
        let (mut line, mut in_time, mut order) = (Line::default(), 0, Vec::new());
        let mut waiting: VecDeque<(Ticket, Instant)> = VecDeque::new();
        for ms in 0..5_000 {
            let now = start + ms * MS;
            for _ in 0..calls_each_ms {
                let until = patience.map(|patience| now + patience * MS);
                waiting.push_back((line.wait(None, self::until(until), now).0, now));
            }
            while let (Some(patience), Some((ticket, since))) = (patience, waiting.front().copied())
                && since + patience * MS <= now
            {
                line.leave(ticket, now);
                waiting.pop_front();
            }
            line.call_next(now).expect("many wait");
            let at = waiting.iter().rposition(|(ticket, _)| line.may_go(*ticket));
            let (ticket, since) = waiting.remove(at.expect("one was called")).expect("it is there");
            line.leave(ticket, now);
            let soon = patience.is_none_or(|patience| now - since <= patience * MS * 9 / 10);
            in_time += usize::from(soon);
            order.push(ticket);
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
}
