//! Ends of streams that the kernel keeps to itself.
//!
//! A multishot receive that takes bytes from a socket whose end has come already may be told of nothing more: the
//! kernel counts both as one event. This concerns resets of TCP and every end of a Unix stream. Linux 6.18 does so
//! if both come while the receive is being armed, and kernels before a fix of 2026 (liburing's issue 1549) whenever
//! both have come before the ring is entered.
//!
//! Such an end is there when the bytes are received, so one look at each stream that has received finds it. The
//! looks of a while are made at once: a busy stream costs one look in that time, and one that is closed before
//! costs none. A receive that is armed again finds the end by itself.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::handle::{ArmState, UringHandle};
use super::{Uring, kind, tag};
use crate::driver::{Key, RecvClass, Wait, sockets};
use crate::limits;

/// The slots whose streams have received and were not looked at since: each at most once.
pub(super) struct Overlooked {
    /// Those to be looked at when it is due.
    later: Vec<u32>,
    due: Instant,
    /// Those to be looked at now.
    now: Vec<u32>,
    /// Empty between two looks; kept for its memory.
    look: Look,
}

/// The streams of one look, and what the kernel is asked of each.
#[derive(Default)]
struct Look {
    keys: Vec<Key>,
    polled: Vec<PollFd<'static>>,
}

impl Overlooked {
    pub(super) fn new() -> Self {
        let (later, now) = (Vec::new(), Vec::new());
        Self { later, due: Instant::now(), now, look: Look::default() }
    }

    /// Adds a slot that is not listed.
    #[cold]
    pub(super) fn add(&mut self, slot: usize, now: Instant) {
        if self.later.is_empty() {
            self.due = self.due.max(now + limits::END_LOOK_PAUSE);
        }
        self.later.push(slot as u32);
    }

    /// Limits the sleep of a turn to the time of the next look.
    #[inline]
    pub(super) fn shorten(&self, wait: Wait, now: Instant) -> Wait {
        match (self.now.is_empty(), self.later.is_empty()) {
            (true, true) => wait,
            (true, false) => wait.no_longer_than(self.due.saturating_duration_since(now)),
            (false, _) => Wait::Poll,
        }
    }

    /// Whether streams are to be looked at now.
    #[inline]
    fn is_due(&self, now: Instant) -> bool {
        !self.now.is_empty() || !self.later.is_empty() && now >= self.due
    }

    /// Takes the slots of one look.
    fn take(&mut self, now: Instant) -> impl Iterator<Item = u32> {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.later);
            self.due = now + limits::END_LOOK_PAUSE;
        }
        let rest = self.now.len().saturating_sub(limits::END_LOOKS_MAX);
        self.now.drain(rest..)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.later.len() + self.now.len()
    }
}

impl Uring {
    /// Looks at streams that have received, if it is time to.
    #[inline]
    pub(super) fn look_for_ends(&mut self) {
        let now = self.clock.get();
        if self.overlooked.is_due(now) {
            self.look_at_some(now);
        }
    }

    #[cold]
    fn look_at_some(&mut self, now: Instant) {
        let Look { mut keys, mut polled } = std::mem::take(&mut self.overlooked.look);
        for slot in self.overlooked.take(now) {
            let handle = &mut self.handles[slot as usize];
            handle.is_listed = false;
            if handle.receives_stream() {
                keys.push(handle.key);
                polled.push(PollFd::from_borrowed_fd(sockets::borrow(handle.fd), PollFlags::RDHUP));
            }
        }
        self.counters.syscalls += 1;
        let is_known = poll(&mut polled, Some(&Timespec::default())).is_ok();
        for (key, polled) in keys.drain(..).zip(polled.drain(..)) {
            if !is_known || !polled.revents().is_empty() {
                self.receive_anew(key);
            }
        }
        self.overlooked.look = Look { keys, polled };
    }

    /// Has the receive of a stream look for bytes and ends from the start, if one is armed.
    pub(super) fn receive_anew(&mut self, key: Key) {
        if self.handles[key.index()].receives_stream() {
            // As nobody has asked for its end, it is armed again.
            self.ring.cancel(tag(kind::RECV, key.bits()), tag(kind::CANCEL, 0));
        }
    }
}

impl UringHandle {
    fn receives_stream(&self) -> bool {
        self.recv == ArmState::Armed && self.class != RecvClass::Datagram && !self.closing
    }
}
