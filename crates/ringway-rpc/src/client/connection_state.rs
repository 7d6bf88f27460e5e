//! The state of a connection that is borrowed as a whole: its machine and its calls.
//!
//! The client uses its machines (`machine.rs`) only here, in `connection.rs` and in `stream_carrier.rs`.

mod events;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::View;
use ringway_wire::native::{Body, ClientEvent, Outgoing, StreamId};

use super::load_balancer::EndpointId;
use super::machine::{AnyMachine, ClientMachine, ReceivingMachine, Violation};
use super::pending_calls::PendingCalls;
use super::pool_context::PoolContext;
use super::stream_timers::StreamTimers;
use crate::call::method::Method;
use crate::call::status::{Code, Status};
use crate::call::zero_copy;
use crate::connection::table::{StreamTable, WriterUse};
use crate::limits;
use crate::slab::SlabKey;
use crate::waiters::{Errands, HasErrands};

/// The machine and the calls of a connection. No waker is woken or dropped while it is borrowed: wakers
/// of unary calls are returned, and those of streams are collected as errands.
pub(super) struct ConnectionState {
    pub(super) machine: AnyMachine,
    pub(super) calls: OpenCalls,
}

/// The open calls of a connection.
pub(super) struct OpenCalls {
    /// The calls, by their slots in the machine.
    slots: Vec<CallSlot>,
    pub(super) streams: StreamTable,
    pub(super) timers: StreamTimers,
    /// The number of calls opened so far, and of those whose requests the machine has already handed
    /// over.
    opened: u64,
    given_out: u64,
    /// A lower bound of the calls' deadlines.
    next_deadline: Duration,
    /// When to look next for sinks whose `finish` seems to be forgotten.
    next_finish_check: Duration,
    /// Whether the peer has answered a call other than by refusing it.
    pub(super) has_answered: bool,
    /// The number of calls that the peer accepted, according to its GOAWAY.
    accepted: Option<u32>,
    /// The reason that the peer gave in its GOAWAY.
    go_away_reason: String,
}

/// The call in one slot.
#[derive(Clone, Copy)]
struct CallSlot {
    stream: Option<StreamId>,
    of: StreamUse,
    /// The number of the call on this connection. It does not wrap around in a connection's life.
    number: u64,
    deadline: Duration,
}

/// The use of a stream.
#[derive(Clone, Copy)]
pub(super) enum StreamUse {
    /// A unary call, with its pending entry.
    Unary(SlabKey),
    /// A streaming call, whose messages go to the table of streams.
    Streams,
}

/// The deadline of calls without one.
pub(super) const NEVER: Duration = Duration::MAX;

impl HasErrands for ConnectionState {
    #[inline]
    fn errands(&mut self) -> &mut Errands {
        self.calls.streams.errands()
    }
}

impl ConnectionState {
    pub(super) fn new(context: Rc<PoolContext>, endpoint: EndpointId, machine: AnyMachine) -> Self {
        let now = context.clock.now();
        let calls = OpenCalls {
            slots: Vec::new(),
            streams: StreamTable::default(),
            timers: StreamTimers::new(context, endpoint, now),
            opened: 0,
            given_out: 0,
            next_deadline: NEVER,
            next_finish_check: NEVER,
            has_answered: false,
            accepted: None,
            go_away_reason: String::new(),
        };
        Self { machine, calls }
    }

    /// Cancels a call from this side and tells the peer. Returns the number of calls ended (0 or 1).
    pub(super) fn end_here(&mut self, stream: StreamId, code: Code, reason: &str) -> u32 {
        self.calls.end_here(&mut self.machine, stream, code, reason)
    }

    /// Processes received bytes. Returns the number of calls that ended.
    ///
    /// # Errors
    /// The second value is an error when the peer has broken the protocol.
    pub(super) fn handle_input<C>(
        &mut self,
        view: Option<&View>,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> (u32, Result<(), Violation>) {
        match &mut self.machine {
            AnyMachine::Native(machine) => self.calls.take_in(machine, view, now, pending, woken),
            AnyMachine::Grpc(machine) => {
                self.calls.take_in(&mut **machine, view, now, pending, woken)
            }
            AnyMachine::Json(machine) => {
                self.calls.take_in(&mut **machine, view, now, pending, woken)
            }
        }
    }

    /// Whether the deadline of a call may have passed.
    pub(super) fn has_expired(&self, now: Duration) -> bool {
        self.calls.next_deadline <= now
    }

    /// Ends calls whose deadline has passed and computes the next one. The table is as long as there ever
    /// were concurrent calls, and is searched only when a deadline has come, so calls that are answered
    /// in time cost nothing here.
    pub(super) fn expire<C>(
        &mut self,
        now: Duration,
        late: impl Fn() -> Status,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        self.calls.timers.set_time(now);
        let mut ended = 0;
        let mut next = NEVER;
        for slot in 0..self.calls.slots.len() {
            let CallSlot { stream: Some(stream), of, deadline, .. } = self.calls.slots[slot] else {
                continue;
            };
            if deadline > now {
                next = next.min(deadline);
                continue;
            }
            let late = self.calls.timers.named(stream.slot(), late());
            ended += self.end_here(stream, Code::DeadlineExceeded, "");
            match of {
                StreamUse::Unary(call) => woken.extend(pending.end(call, Err(late), now)),
                StreamUse::Streams => self.calls.streams.finish(stream, Err(late)),
            }
        }
        self.calls.next_deadline = next;
        ended
    }

    /// The next deadline of a call, or the machine's next timeout.
    #[inline]
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let machine = self.machine.poll_timeout().unwrap_or(NEVER);
        let next = machine.min(self.calls.next_deadline).min(self.calls.next_finish_check);
        (next != NEVER).then_some(next)
    }

    #[inline]
    pub(super) fn poll_transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        if self.machine.has_output() {
            self.calls.given_out = self.calls.opened;
        }
        self.machine.transmit(budget, out);
    }

    /// Fails all open calls because the connection is gone.
    pub(super) fn fail_all<C>(
        &mut self,
        why: &str,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) {
        for slot in 0..self.calls.slots.len() {
            let CallSlot { stream: Some(stream), of, number, .. } = self.calls.slots[slot] else {
                continue;
            };
            let status = self.lost(number, stream, why);
            match of {
                StreamUse::Unary(call) => woken.extend(pending.lost(call, status, now)),
                StreamUse::Streams => {
                    let status = self.calls.timers.named(stream.slot(), status);
                    self.calls.timers.ended(
                        stream.slot(),
                        Some(&status),
                        self.calls.streams.errands(),
                    );
                    self.calls.streams.finish(stream, Err(status));
                }
            }
            self.calls.slots[slot].stream = None;
        }
    }

    /// The failure of a call whose connection was lost.
    fn lost(&self, number: u64, stream: StreamId, why: &str) -> Status {
        let waited = number > self.calls.given_out;
        let refused = self
            .calls
            .accepted
            .is_some_and(|accepted| !self.machine.was_accepted(stream, accepted));
        let status = Status::unavailable(why.to_owned());
        if waited || refused { status.not_executed() } else { status }
    }
}

impl OpenCalls {
    /// Adds a call that the machine has opened.
    #[inline]
    pub(super) fn enter(&mut self, stream: StreamId, of: StreamUse, deadline: Duration) {
        let slot = stream.slot() as usize;
        if slot >= self.slots.len() {
            let unused =
                CallSlot { stream: None, of: StreamUse::Streams, number: 0, deadline: NEVER };
            self.slots.resize(slot + 1, unused);
        }
        self.opened += 1;
        debug_assert!(self.slots[slot].stream.is_none(), "the machine gives free slots");
        self.slots[slot] = CallSlot { stream: Some(stream), of, number: self.opened, deadline };
        self.next_deadline = self.next_deadline.min(deadline);
    }

    /// Looks from time to time whether the sink of this stream of requests is finished.
    pub(super) fn watch_finish(&mut self, stream: StreamId, now: Duration) {
        self.timers.watch_finish(stream.slot());
        self.next_finish_check = self.next_finish_check.min(now + limits::FINISH_FORGOTTEN);
    }

    /// Logs when replies are awaited to streams of requests that are neither finished nor used: the
    /// server may never answer them. Each stream is named once.
    pub(super) fn check_finish(&mut self, now: Duration) {
        if now < self.next_finish_check {
            return;
        }
        let mut is_watching = false;
        let mut forgotten: Option<(&'static Method, usize)> = None;
        for stream in self.slots.iter().filter_map(|slot| slot.stream) {
            let Some(method) = self.timers.unfinished_method(stream.slot()) else { continue };
            match self.streams.check_writer(stream) {
                WriterUse::Finished => self.timers.finish_seen(stream.slot()),
                WriterUse::InUse => is_watching = true,
                WriterUse::Forgotten => {
                    self.timers.finish_seen(stream.slot());
                    forgotten = Some((method, forgotten.map_or(1, |(_, count)| count + 1)));
                }
            }
        }
        let next = is_watching.then(|| now + limits::FINISH_FORGOTTEN);
        self.next_finish_check = next.unwrap_or(NEVER);
        if let Some((method, streams)) = forgotten {
            self.streams.errands().later(move || log_forgotten(method, streams));
        }
    }

    /// The use of a stream; `None` once this side has ended the call.
    #[inline]
    fn use_of(&self, stream: StreamId) -> Option<StreamUse> {
        let slot = self.slots.get(stream.slot() as usize)?;
        (slot.stream == Some(stream)).then_some(slot.of)
    }

    /// Removes a call and returns its slot; `None` once this side has ended it.
    #[inline]
    fn leave(&mut self, stream: StreamId) -> Option<CallSlot> {
        let slot = self.slots.get_mut(stream.slot() as usize)?;
        slot.stream.take_if(|own| *own == stream)?;
        Some(*slot)
    }

    /// Cancels a call from this side and tells the peer. Returns the number of calls ended (0 or 1).
    pub(super) fn end_here(
        &mut self,
        machine: &mut impl ClientMachine,
        stream: StreamId,
        code: Code,
        reason: &str,
    ) -> u32 {
        if self.leave(stream).is_none() {
            return 0;
        }
        machine.cancel(stream, code.number(), reason);
        self.timers.given_up(stream.slot(), code, self.streams.errands());
        1
    }

    /// Processes received bytes with a machine of one protocol. Returns the number of calls that ended.
    ///
    /// # Errors
    /// The second value is an error when the peer has broken the protocol.
    fn take_in<M: ReceivingMachine, C>(
        &mut self,
        machine: &mut M,
        view: Option<&View>,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> (u32, Result<(), Violation>) {
        self.timers.set_time(now);
        let mut input = view.map_or(&[][..], |view| view);
        let mut ended = 0;
        loop {
            match machine.receive(&mut input, now) {
                Ok(Some(mut event)) => {
                    if let ClientEvent::Response { message: Some(message), .. }
                    | ClientEvent::Message { message, .. } = &mut event
                    {
                        zero_copy::keep(message, view);
                    }
                    ended += self.on_event(machine, event, now, pending, woken);
                    ended += self.take_messages(machine, &mut input, view, now, pending, woken);
                }
                Ok(None) => return (ended, Ok(())),
                Err(violation) => return (ended, Err(violation.into())),
            }
        }
    }

    pub(super) fn is_peer_leaving(&self) -> bool {
        self.accepted.is_some()
    }

    pub(super) fn go_away_reason(&self) -> String {
        match self.go_away_reason.is_empty() {
            true => String::new(),
            false => format!(": {}", self.go_away_reason),
        }
    }
}

fn log_forgotten(method: &'static Method, streams: usize) {
    tracing::warn!(
        method = method.name(),
        streams,
        "a reply is awaited while the sink of its requests is open and has sent nothing for {:?}: call \
         `finish()` on the sink after the last message",
        limits::FINISH_FORGOTTEN
    );
}

/// A message for the machine: a small one is copied into its output at once, a large one is shared.
#[inline]
pub(super) fn body(message: &Bytes) -> Body<'_> {
    match message.len() > limits::REQUEST_COPY_BYTES_MAX {
        true => Body::Shared(message.clone()),
        false => Body::Copy(message),
    }
}
