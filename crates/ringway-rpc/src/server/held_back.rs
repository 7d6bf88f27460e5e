//! When calls wait for their client, and how they begin again.

use std::rc::Rc;
use std::time::Duration;

use ringway_wire::native::{Piece, StreamId};

use super::calls::Queued;
use super::connection::ServerConnection;
use super::core::QueuedGuard;
use super::dispatch::Arrival;
use super::machine::Machine;
use crate::limits;

const BACKLOG_FULL: &str = "64 MiB of requests wait on the connection until its client takes replies, 32 MiB of which wait \
                            for the windows of their streams: read the replies, and make fewer calls meanwhile";

impl<M: Machine> ServerConnection<M> {
    /// Whether calls may have to wait for the client, which [`is_paused`](Self::is_paused) tells.
    #[inline]
    pub(super) fn has_much_waiting(&self) -> bool {
        M::HAS_WINDOWS && self.machine().queued_len() >= self.pause.mark.get() as usize
    }

    /// Whether no call is to be begun, because many bytes of replies wait.
    #[cold]
    pub(super) fn is_paused(&self) -> bool {
        let max = match self.pause.is_on.get() {
            true => limits::REPLIES_WAITING_LOW,
            false => limits::REPLIES_WAITING_MAX,
        };
        self.pause.is_on.set(self.machine().queued_len() >= max);
        let waits = self.pause.is_on.get() || self.has_held_back();
        self.pause.mark.set(if waits { 0 } else { limits::REPLIES_WAITING_MAX as u32 });
        self.pause.is_on.get()
    }

    fn has_held_back(&self) -> bool {
        self.calls.borrow().backlog.is_some()
    }

    /// Whether a call that arrives has to wait, for its client or for those before it.
    #[cold]
    pub(super) fn keeps_order(&self) -> bool {
        self.is_paused() || self.has_held_back()
    }

    /// Whether there are calls which begin when this is the connection's turn.
    pub(super) fn has_calls_to_begin(&self) -> bool {
        match M::HAS_WINDOWS && self.pause.mark.get() == 0 {
            true => !self.is_paused() && (self.has_deferred() || self.has_held_back()),
            false => self.has_deferred(),
        }
    }

    /// Adds a call to the backlog.
    #[cold]
    pub(super) fn hold_back(self: &Rc<Self>, method_index: usize, arrival: Arrival<'_, '_>) {
        let (core, stream) = (self.core(), arrival.stream);
        let queued = self.keep_request(method_index, arrival, QueuedGuard::of_backlog(core));
        self.add_to_backlog(stream, queued);
    }

    /// Adds a call to the backlog whose turn in the queue of its method has come.
    #[cold]
    pub(super) fn put_back(&self, stream: StreamId, mut queued: Box<Queued>) {
        queued.waits = QueuedGuard::of_backlog(self.core());
        self.add_to_backlog(stream, queued);
        self.update_usage();
        self.wake(); // its alarm may be set for later
    }

    fn add_to_backlog(&self, stream: StreamId, queued: Box<Queued>) {
        let mut calls = self.calls.borrow_mut();
        let kept = calls.backlog.as_ref().map_or(0, |backlog| backlog.bytes);
        if kept < limits::BACKLOG_BYTES_MAX {
            return calls.hold_back(stream, queued);
        }
        drop(calls);
        self.shed(self.core().entry(queued.method_index), stream, BACKLOG_FULL);
    }

    /// Begins calls of the backlog, as many as this turn has time for, if replies have left.
    #[inline]
    pub(super) fn begin_held_back(self: &Rc<Self>) {
        if M::HAS_WINDOWS && self.pause.mark.get() == 0 {
            self.begin_backlog();
        }
    }

    #[cold]
    fn begin_backlog(self: &Rc<Self>) {
        while !self.is_paused() {
            let next = self.calls.borrow_mut().next_held_back();
            let Some((stream, queued)) = next else { return };
            self.begin_one(stream, *queued);
            self.begin_deferred();
            if !self.core().has_time() {
                return; // the connection's task asks whether there are more
            }
        }
    }

    fn begin_one(self: &Rc<Self>, stream: StreamId, queued: Queued) {
        let Queued { method_index, mut head, meta, message, end, until, opened, waits, .. } =
            queued;
        drop(waits); // only handlers that wait are in flight
        let at = self.core().now();
        // The wait was the client's: what is measured begins now, and its deadline stays where it is.
        if let Some(until) = until {
            let left = until.saturating_sub(at).as_micros();
            if left == 0 {
                return self.expire(self.core().entry(method_index), stream);
            }
            head.timeout_us = u32::try_from(left).unwrap_or(u32::MAX);
        }
        let (head, meta) = (&head, &Piece::Owned(meta));
        let message = &mut message.map(Piece::Owned);
        self.let_in(method_index, Arrival { stream, head, meta, message, end, at, opened });
    }

    /// The first deadline of a call that waits for its client.
    #[inline]
    pub(super) fn held_back_until(&self) -> Option<Duration> {
        match M::HAS_WINDOWS && self.pause.mark.get() == 0 {
            true => self.first_deadline(),
            false => None,
        }
    }

    #[cold]
    fn first_deadline(&self) -> Option<Duration> {
        let calls = self.calls.borrow();
        let of_backlog = calls.backlog.as_ref().and_then(|backlog| backlog.deadlines.first());
        of_backlog.map(|&(until, _)| until).into_iter().chain(self.deferred_until()).min()
    }

    /// Answers the calls whose deadlines have passed while they waited for their client.
    #[cold]
    pub(super) fn end_late(&self, now: Duration) {
        loop {
            let late = self.calls.borrow_mut().next_late(now);
            let Some((stream, queued)) = late else { break };
            self.expire(self.core().entry(queued.method_index), stream);
        }
        if self.is_paused() {
            self.expire_late_deferred();
        }
    }
}
