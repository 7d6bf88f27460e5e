//! Calls that wait in a pool: for room on a connection, or for a moment.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use crate::limits;

/// A place in a line. Lower ones are served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(u64);

struct Place {
    ticket: Ticket,
    waker: Waker,
    /// It has been told to go on, and has not done so yet.
    called: bool,
    wake_at: Option<Instant>,
}

/// Who waits, in the order of their coming.
#[derive(Default)]
pub(super) struct Line {
    /// In the order of their tickets.
    places: VecDeque<Place>,
    next: u64,
    called: usize,
    /// No `wake_at` is before this one.
    earliest: Option<Instant>,
}

impl Line {
    /// Those who wait and were not told to go on.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.places.len() - self.called
    }

    /// Those who were told to go on and have not done so yet.
    #[inline]
    pub(super) fn called(&self) -> usize {
        self.called
    }

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= limits::WAITING_CALLS_MAX
    }

    pub(super) fn is_called(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_some_and(|at| self.places[at].called)
    }

    /// Enters the line, or takes up the same place again; with what is to be dropped when the line is
    /// no longer borrowed.
    pub(super) fn wait(
        &mut self,
        ticket: Option<Ticket>,
        waker: &Waker,
        wake_at: Option<Instant>,
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
            return (ticket, former);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.places.push_back(Place { ticket, waker: waker.clone(), called: false, wake_at });
        (ticket, None)
    }

    /// Leaves the line; what is to be dropped when the line is no longer borrowed.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        let at = self.find(ticket)?;
        let place = self.places.remove(at)?;
        self.called -= usize::from(place.called);
        Some(place.waker)
    }

    /// Tells the first who waits to go on.
    pub(super) fn call_next(&mut self) -> Option<Waker> {
        let place = self.places.iter_mut().find(|place| !place.called)?;
        place.called = true;
        self.called += 1;
        Some(place.waker.clone())
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
        (self.called, self.earliest) = (0, None);
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.places.binary_search_by_key(&ticket, |place| place.ticket).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn places_are_served_in_order_and_kept_by_those_who_come_back() {
        let mut line = Line::default();
        let [a, b, c] = std::array::from_fn(|_| line.wait(None, Waker::noop(), None).0);
        assert!(line.call_next().is_some() && line.is_called(a) && !line.is_called(b));
        assert_eq!((line.waiting(), line.called()), (2, 1));
        assert_eq!(line.wait(Some(a), Waker::noop(), None).0, a, "it found no room after all");
        assert_eq!((line.waiting(), line.called()), (3, 0));
        line.leave(a);
        assert!(line.call_next().is_some() && line.is_called(b));
        line.leave(b);
        assert!(line.leave(b).is_none());
        assert_eq!((line.waiting(), line.called()), (1, 0));
        line.leave(c);
        assert!(line.call_next().is_none());
    }

    #[test]
    fn time_wakes_each_once() {
        let start = Instant::now();
        let mut line = Line::default();
        for wait in [Some(3), None, Some(1), Some(2)] {
            line.wait(None, Waker::noop(), wait.map(|wait| start + wait * MS));
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
}
