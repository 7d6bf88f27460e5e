//! The turn of a ring: hand over, wait, reap, settle sends.

use std::io;
use std::time::Duration;

use super::{Completion, LOST, Uring, kind};
use crate::driver::{Event, Key};
use crate::limits;

impl Uring {
    /// Sleeps until there is an event. A kernel without memory accepts nothing, does not let the
    /// core sleep and does not report when memory is free again, so the core rests before it tries
    /// again.
    pub(super) fn wait(
        &mut self,
        limit: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        self.sleep(limit, events)?;
        if self.refused && events.is_empty() {
            #[expect(clippy::disallowed_methods, reason = "the kernel reports no event now")]
            std::thread::sleep(limit.unwrap_or(limits::REFUSED_REST).min(limits::REFUSED_REST));
        }
        Ok(())
    }

    /// Sleeps until a share of the active connections has received, after urgent sends are
    /// answered.
    fn sleep(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        while self.urgent {
            self.enter(0, None, events)?;
            if !events.is_empty() || self.refused {
                return Ok(());
            }
        }
        let goal = self.gather.goal();
        self.receives = 0;
        self.enter(goal, limit, events)?;
        if goal > 1 && self.receives < goal {
            self.gather.missed();
        }
        Ok(())
    }

    /// Hands over queued operations, waits for `want` completions and handles those that completed.
    pub(super) fn enter(
        &mut self,
        want: u32,
        limit: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        self.urgent = false;
        self.counters.syscalls += 1;
        self.ring.enter(want, limit)?;
        // Checked before completions are handled: they may queue the rest of a partial send,
        // which says nothing about the sends before it.
        self.refused = self.ring.queued() > 0;
        let mut found = self.reap(events);
        while self.ring.has_overflowed() {
            if !found {
                self.refused = true; // the kernel holds completions back
                break;
            }
            self.counters.syscalls += 1;
            self.ring.enter(0, None)?;
            found = self.reap(events);
        }
        // Before sends are settled: a lost completion may be that of a failed send.
        if self.ring.has_dropped() {
            self.fault = Some(LOST);
        }
        if let Some(fault) = self.fault {
            return Err(io::Error::other(format!("io_uring is broken: {fault}")));
        }
        if !self.refused && self.sends.is_unsettled() {
            self.settle(events);
        }
        self.urgent |= self.sends.is_unsettled();
        Ok(())
    }

    /// Handles completions; whether there were any.
    pub(super) fn reap(&mut self, events: &mut Vec<Event>) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.reap(&mut completions);
        let found = !completions.is_empty();
        for completion in completions.drain(..) {
            self.dispatch(completion, events);
        }
        self.completions = completions;
        found
    }

    /// Ends the sends of the last enter without a completion, which were accepted as a whole.
    pub(super) fn settle(&mut self, events: &mut Vec<Event>) {
        loop {
            let wants = |key: Key| !self.handles[key.index()].closing;
            let Some(sent) = self.sends.settle(&mut self.ring, wants) else { return };
            self.on_sent(sent, events);
        }
    }

    pub(super) fn dispatch(&mut self, completion: Completion, events: &mut Vec<Event>) {
        let key = completion.name();
        match (completion.user_data >> 56) as u8 {
            kind::RECV => self.on_recv(key, completion, events),
            kind::SEND => self.on_send(completion, events),
            kind::ACCEPT => self.on_accept(key, completion, events),
            kind::CONNECT => self.on_connect(completion, events),
            kind::EVENTFD => self.on_eventfd(completion),
            kind::CANCEL_ALL => self.on_cancelled(key, events),
            kind::FILE => self.on_file(completion, events),
            kind::ROOM => self.on_room(key, completion, events),
            kind::CANCEL => {}
            unknown => debug_assert!(false, "completion of unknown kind {unknown}"),
        }
    }
}
