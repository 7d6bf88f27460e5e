//! Requests that wait for room to run.
//!
//! A request belongs to its connection, where a cancellation finds it and its bytes are counted. The
//! queue of its method has a ticket for it, which is good for nothing once the request is gone.

use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{Piece, RequestHead, StreamId};

use super::calls::Call;
use super::connection::NativeConnection;
use super::core::InFlight;
use super::dispatch::{Arrival, kept};
use super::entry::Entry;
use super::queue::Urgency;
use crate::stream::remote::OpenedStream;

/// A request that waits for room to run.
pub(super) struct Queued {
    /// Of its method.
    place: usize,
    head: RequestHead,
    meta: Bytes,
    message: Option<Bytes>,
    end: bool,
    at: Duration,
    /// Where its messages gather meanwhile, if it has a stream of them.
    opened: Option<OpenedStream>,
    in_flight: InFlight,
}

/// What a queue has of a request.
pub(super) struct Ticket {
    connection: Weak<NativeConnection>,
    stream: StreamId,
    number: u64,
}

impl Queued {
    /// Bytes that it keeps, but for those that the connection's machine knows of.
    pub(super) fn len(&self) -> usize {
        self.meta.len() + self.message.as_ref().map_or(0, Bytes::len)
    }
}

impl NativeConnection {
    #[cold]
    pub(super) fn enqueue(self: &Rc<Self>, place: usize, arrival: Arrival<'_, '_>) {
        let Arrival { stream, head, meta, message, end, at, .. } = arrival;
        let core = Rc::clone(self.core());
        let entry = core.entry(place);
        let takes_stream = entry.method().kind.streams_in();
        let opened = takes_stream.then(|| self.open_requests(entry, stream, message.take(), end));
        let queued = Box::new(Queued {
            place,
            head: *head,
            meta: kept(meta),
            message: message.take().map(Piece::into_bytes),
            end,
            at,
            opened,
            in_flight: core.take_off(),
        });
        let number = self.calls.borrow_mut().enqueue(stream, queued);
        let ticket = Ticket { connection: Rc::downgrade(self), stream, number };
        let timeout = Duration::from_micros(head.timeout_us.into());
        let deadline = (!timeout.is_zero()).then(|| at + timeout);
        let urgency = Urgency { priority: head.priority, deadline };
        if let Some(shed) = entry.push(ticket, urgency, at) {
            shed.shed(entry);
        }
        core.keep_queue(place);
    }

    /// Answers the largest request that waits without having run it; false if none is as large.
    #[cold]
    pub(super) fn shed_largest(&self, at_least: usize) -> bool {
        let largest = self.calls.borrow().largest_queued();
        let Some((_, stream)) = largest.filter(|(len, _)| *len >= at_least.max(1)) else {
            return false;
        };
        let call = self.calls.borrow_mut().remove(stream);
        if let Some(queued) = call.and_then(Call::into_queued) {
            let entry = self.core().entry(queued.place);
            self.shed(entry, stream, "the server has no memory for more requests that wait");
        }
        true
    }

    /// The time to drain is over: calls that have not begun are answered as not executed.
    #[cold]
    pub(super) fn refuse_waiting(&self) {
        let queued = self.calls.borrow_mut().take_queued_all();
        for call in queued {
            self.refuse(call.stream(), DRAINED);
        }
        self.refuse_deferred();
    }

    fn shed(&self, entry: &Entry, stream: StreamId, why: &'static str) {
        entry.sheet().shed();
        self.core().share().count_shed();
        self.refuse(stream, why);
    }
}

/// Why a call has not begun.
pub(super) const DRAINED: &str = "the server has shut down before the call could begin";

impl Ticket {
    /// The request, unless it has ended meanwhile.
    fn claim(&self) -> Option<(Rc<NativeConnection>, Box<Queued>)> {
        let connection = self.connection.upgrade()?;
        let queued = connection.calls.borrow_mut().take_queued(self.stream, self.number)?;
        connection.account();
        Some((connection, queued))
    }

    /// Answers without having run it.
    pub(super) fn shed(self, entry: &Entry) {
        if let Some((connection, _queued)) = self.claim() {
            connection.shed(entry, self.stream, "the method has as many calls as it may have");
        }
    }

    /// Answers that its deadline has passed.
    pub(super) fn expire(self, entry: &Entry) {
        if let Some((connection, _queued)) = self.claim() {
            connection.expire(entry, self.stream);
        }
    }

    /// Runs it in the place that its method has given it, after it has waited for `waited`. False if
    /// it has ended meanwhile, so that the place is still free.
    pub(super) fn run(self, waited: Duration) -> bool {
        let Some((connection, queued)) = self.claim() else { return false };
        let Queued { place, head, meta, message, end, at, opened, in_flight } = *queued;
        drop(in_flight); // a handler that does not wait is not among them
        let (stream, head, meta) = (self.stream, &head, &Piece::Owned(meta));
        let message = &mut message.map(Piece::Owned);
        let arrival = Arrival { stream, head, meta, message, end, at, opened };
        connection.run(place, arrival, waited);
        connection.begin_deferred();
        true
    }
}
