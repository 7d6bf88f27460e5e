//! Turns of a simulation: running due actions, moving the clock, handing over events.

use std::io;
use std::time::Duration;

use super::{Action, Sim};
use crate::driver::{Event, Wait};
use crate::limits;

impl Sim {
    /// Runs until there is an event or the wait is over. Like a kernel, it may return early without
    /// an event.
    ///
    /// # Errors
    /// Fails when nothing can ever happen again and the wait has no end.
    pub(super) fn run_until_event(&mut self, wait: Wait) -> io::Result<()> {
        let now = self.schedule.now();
        let deadline = match wait {
            Wait::Poll => Some(now),
            Wait::AtMost(limit) => Some(now.saturating_add(limit)),
            Wait::Forever => None,
        };
        for _ in 0..limits::SIM_STEPS_PER_TURN_MAX {
            self.retry_parked();
            self.tell_watches();
            while self.ready.len() < limits::SIM_EVENTS_PER_TURN_MAX
                && let Some(action) = self.schedule.pop_due()
            {
                self.act(action);
            }
            if !self.ready.is_empty() || !self.advance(deadline)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves the clock to the next action, or to the deadline; whether there is more to run.
    fn advance(&mut self, deadline: Option<Duration>) -> io::Result<bool> {
        let next = self.schedule.next_at().filter(|&at| deadline.is_none_or(|end| at <= end));
        let to = next.or(deadline).ok_or_else(|| self.stuck())?;
        self.schedule.advance_to(to);
        Ok(next.is_some())
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::File(name) => self.on_file(name),
            Action::Receive(key) => self.on_receive(key),
            Action::Accept(key) => self.on_accept(key),
            Action::Send(key) => self.on_send(key),
            Action::Room(fd) => self.on_room(fd),
            Action::ReceiveStopped(key) => self.on_receive_stopped(key),
            Action::AcceptStopped(key) => self.on_accept_stopped(key),
            Action::Sent(key) => self.on_sent(key),
            Action::Connected { key, errno } => self.on_connected(key, errno),
            Action::Closed { key, abort } => self.on_closed(key, abort),
            Action::Syn { client, to, attempt } => self.on_syn(client, to, attempt),
            Action::Bytes { to, from, bytes } => self.on_bytes(to, from, bytes),
            Action::Fin { to } => self.on_fin(to),
            Action::Reset { to } => self.on_reset(to),
            Action::Datagram { to, datagram } => self.on_datagram(&to, datagram),
        }
    }

    /// Appends the events that are due, in an order that a kernel could have chosen: neighbours of
    /// different keys may be swapped, and some may be left for the next turn.
    pub(super) fn hand_over(&mut self, events: &mut Vec<Event>) {
        if self.ready.is_empty() {
            return;
        }
        self.counters.syscalls += 1;
        let faults = self.config.faults;
        for at in 1..self.ready.len() {
            let apart = self.ready[at - 1].key() != self.ready[at].key();
            if apart && self.chance(faults.reorders) {
                self.ready.swap(at - 1, at);
            }
        }
        let all = self.ready.len();
        let count = if self.chance(faults.short_turns) { self.rng.one_to(all) } else { all };
        events.extend(self.ready.drain(..count));
    }

    fn stuck(&self) -> io::Error {
        let handles = || self.handles.iter().flatten();
        let receives = handles().filter(|handle| handle.receive.is_on()).count();
        let parked = handles().filter(|handle| handle.parked).count();
        let accepts = handles().filter(|handle| handle.accept.is_on()).count();
        let sends = handles().filter(|handle| handle.send.is_some()).count();
        io::Error::other(format!(
            "simulation is stuck: nothing is scheduled and no timer is set at {:?}, with \
             {receives} receives ({parked} of them waiting for a buffer), {accepts} accepts and \
             {sends} sends in flight, seed {}",
            self.elapsed(),
            self.config.seed,
        ))
    }
}
