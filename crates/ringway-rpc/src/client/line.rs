//! Calls that wait in a pool: for room on a connection, or for a moment.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::limits;
use crate::resilience::Pace;

/// A place in a line. Lower ones are served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(u64);

struct Place {
    ticket: Ticket,
    waker: Waker,
    /// It has been told to go on, and has not done so yet.
    called: bool,
    /// It waits for something else than room, and is not in anybody's way.
    apart: bool,
    wake_at: Option<Instant>,
}

impl Place {
    /// For room, and it was not told to go on.
    fn is_waiting(&self) -> bool {
        !self.called && !self.apart
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

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= limits::WAITING_CALLS_MAX
    }

    /// Whether the place was called, or waits for nobody's room.
    pub(super) fn may_go(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_some_and(|at| self.places[at].called || self.places[at].apart)
    }

    /// Enters the line, or takes up the same place again; with what is to be dropped when the line is
    /// no longer borrowed. Whoever waits `apart` is not called, and is woken with everybody.
    pub(super) fn wait(
        &mut self,
        ticket: Option<Ticket>,
        waker: &Waker,
        wake_at: Option<Instant>,
        apart: bool,
        now: Instant,
    ) -> (Ticket, Option<Waker>) {
        self.earliest = match (self.earliest, wake_at) {
            (Some(earliest), Some(at)) => Some(earliest.min(at)),
            (earliest, at) => earliest.or(at),
        };
        if let Some((ticket, at)) = ticket.and_then(|ticket| Some((ticket, self.find(ticket)?))) {
            let place = &mut self.places[at];
            let is_new = !place.waker.will_wake(waker);
            let former = is_new.then(|| std::mem::replace(&mut place.waker, waker.clone()));
            place.wake_at = wake_at;
            self.called -= usize::from(std::mem::take(&mut place.called));
            self.apart += usize::from(apart);
            self.apart -= usize::from(std::mem::replace(&mut place.apart, apart));
            return (ticket, former);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        if self.places.is_empty() {
            let now = self.since_origin(now);
            self.pace.begin(now);
        }
        self.apart += usize::from(apart);
        let waker = waker.clone();
        self.places.push_back(Place { ticket, waker, called: false, apart, wake_at });
        (ticket, None)
    }

    /// Leaves the line; what is to be dropped when the line is no longer borrowed.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Instant) -> Option<Waker> {
        let at = self.find(ticket)?;
        let place = self.places.remove(at)?;
        self.apart -= usize::from(place.apart);
        if place.called {
            self.called -= 1;
            let now = self.since_origin(now);
            self.pace.served(now);
        }
        Some(place.waker)
    }

    /// Tells the first who waits to go on, or the latest.
    pub(super) fn call_next(&mut self, now: Instant) -> Option<Waker> {
        let latest = self.places.iter().rposition(Place::is_waiting)?;
        let at = match self.serves_latest(latest, now) {
            true => latest,
            false => self.first_in_time(latest, now),
        };
        let place = &mut self.places[at];
        place.called = true;
        self.called += 1;
        Some(place.waker.clone())
    }

    /// The first who has a fair part left of the time that the latest has: for those with less it is
    /// too late to be answered in it.
    fn first_in_time(&self, latest: usize, now: Instant) -> usize {
        let left = |place: &Place| match place.wake_at {
            Some(at) => at.saturating_duration_since(now),
            None => Duration::MAX,
        };
        let enough = left(&self.places[latest]) / limits::LEFT_PART_MIN;
        // Those who have come first mostly have least left; where that is not so, whoever is found
        // may be served as well.
        let goes = |place: &Place| place.is_waiting() && left(place) >= enough;
        let first = self.places.partition_point(|place| !goes(place));
        match self.places.get(first).is_some_and(goes) {
            true => first,
            false => latest,
        }
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

    /// Wakes whose time has come; they keep their places until they leave them.
    pub(super) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for place in &mut self.places {
            match place.wake_at {
                Some(at) if at <= now => {
                    place.wake_at = None;
                    woken.push(place.waker.clone());
                }
                Some(at) => earliest = Some(earliest.map_or(at, |earliest| earliest.min(at))),
                None => {}
            }
        }
        self.earliest = earliest;
    }

    /// Everybody, to be woken because things have changed for all.
    pub(super) fn everybody(&self, woken: &mut Vec<Waker>) {
        woken.extend(self.places.iter().map(|place| place.waker.clone()));
    }

    /// Sends everybody away, to be woken: there is nothing to wait for any more. Their tickets name
    /// nothing then.
    pub(super) fn dissolve(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.places.drain(..).map(|place| place.waker));
        (self.called, self.apart, self.earliest) = (0, 0, None);
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.places.binary_search_by_key(&ticket, |place| place.ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn places_are_served_in_order_and_kept_by_those_who_come_back() {
        let now = Instant::now();
        let mut line = Line::default();
        let [a, b, c] = std::array::from_fn(|_| line.wait(None, Waker::noop(), None, false, now).0);
        assert!(line.call_next(now).is_some() && line.may_go(a) && !line.may_go(b));
        assert_eq!((line.waiting(), line.called()), (2, 1));
        let again = line.wait(Some(a), Waker::noop(), None, false, now).0;
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
    fn whoever_waits_apart_is_in_nobodys_way() {
        let now = Instant::now();
        let mut line = Line::default();
        let apart = line.wait(None, Waker::noop(), None, true, now).0;
        assert_eq!(line.waiting(), 0);
        assert!(line.may_go(apart) && line.call_next(now).is_none());
        let behind = line.wait(None, Waker::noop(), None, false, now).0;
        assert!(line.call_next(now).is_some() && line.may_go(behind));
        // It waits for room after all, and for something else again.
        assert_eq!(line.wait(Some(apart), Waker::noop(), None, false, now).0, apart);
        assert_eq!((line.waiting(), line.may_go(apart)), (1, false));
        line.wait(Some(apart), Waker::noop(), None, true, now);
        let mut woken = Vec::new();
        line.everybody(&mut woken);
        assert_eq!((woken.len(), line.waiting()), (2, 0));
        line.leave(apart, now);
        line.leave(behind, now);
        assert_eq!((line.waiting(), line.called()), (0, 0));
    }

    #[test]
    fn time_wakes_each_once() {
        let start = Instant::now();
        let mut line = Line::default();
        for wait in [Some(3), None, Some(1), Some(2)] {
            line.wait(None, Waker::noop(), wait.map(|wait| start + wait * MS), false, start);
        }
        let mut woken = Vec::new();
        let mut told = Vec::new();
        while let Some(at) = line.earliest() {
            line.expire(at, &mut woken);
            told.push(((at - start).as_millis(), woken.len()));
        }
        assert_eq!(told, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(line.waiting(), 4, "places are left by their holders");
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
                waiting.push_back((line.wait(None, Waker::noop(), until, false, now).0, now));
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
