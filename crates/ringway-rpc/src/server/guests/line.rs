//! Whose request is begun next, when more have come than a core begins in one turn.
//!
//! A head of some bytes begins work of many microseconds, so a core begins a bounded number of requests in each turn,
//! and connections take turns.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_runtime::{spawn_named, yield_now};
use ringway_wire::grpc::GrpcServer;

use crate::limits;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;

/// The connections of a core whose requests wait to be begun.
#[derive(Default)]
pub(in crate::server) struct GuestLine {
    /// The time of the turn in which a request was last begun, and how many were.
    turn: Cell<Duration>,
    begun: Cell<usize>,
    /// A connection stands in it once.
    waiting: RefCell<VecDeque<Weak<ServerConnection<GrpcServer>>>>,
    /// Whether the task runs that begins them.
    has_pacer: Cell<bool>,
}

impl GuestLine {
    /// Whether a request may be begun in the turn that began at `now`, which counts it.
    pub(super) fn lets_in(&self, now: Duration) -> bool {
        if self.has_pacer.get() {
            return false; // others come first
        }
        if self.turn.replace(now) != now {
            self.begun.set(0);
        }
        let lets_in = self.begun.get() < limits::GUESTS_PER_TURN;
        self.begun.set(self.begun.get() + usize::from(lets_in));
        lets_in
    }

    /// The next connection of the line.
    fn next(&self) -> Option<Rc<ServerConnection<GrpcServer>>> {
        loop {
            let next = self.waiting.borrow_mut().pop_front()?;
            if let Some(connection) = next.upgrade() {
                return Some(connection);
            }
        }
    }
}

impl ServerCore {
    /// Lines up a connection that has requests to begin.
    pub(super) fn line_up_guests(self: &Rc<Self>, connection: &Rc<ServerConnection<GrpcServer>>) {
        let line = self.guest_line();
        line.waiting.borrow_mut().push_back(Rc::downgrade(connection));
        if !line.has_pacer.replace(true) {
            spawn_named("pace of requests over HTTP/2", pace(Rc::downgrade(self)));
        }
    }

    /// Begins the next request of the line; false if there is none.
    fn begin_next_guest(&self) -> bool {
        let Some(connection) = self.guest_line().next() else { return false };
        let waits = connection.guest_host.get().is_some_and(|host| host.begin_next());
        if waits {
            let own = Rc::downgrade(&connection);
            self.guest_line().waiting.borrow_mut().push_back(own);
        }
        true
    }
}

async fn pace(core: Weak<ServerCore>) {
    loop {
        yield_now().await;
        let Some(core) = core.upgrade() else { return };
        let begun = (0..limits::GUESTS_PER_TURN).take_while(|_| core.begin_next_guest()).count();
        if begun < limits::GUESTS_PER_TURN {
            core.guest_line().has_pacer.set(false);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_a_bounded_number_and_none_past_those_that_wait() {
        let line = GuestLine::default();
        let at = Duration::from_millis;
        let let_in = |now| (0..1_000).filter(|_| line.lets_in(now)).count();
        assert_eq!(
            [1, 1, 2].map(|ms| let_in(at(ms))),
            [limits::GUESTS_PER_TURN, 0, limits::GUESTS_PER_TURN]
        );
        line.has_pacer.set(true);
        assert_eq!(let_in(at(3)), 0);
    }
}
