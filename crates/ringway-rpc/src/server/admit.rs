//! Which calls may run: checked in this order, and before a body is decoded.
//!
//! ```text
//! codec ─► calls of the connection ─► calls of the server ─► the method's limit ─► run
//!   │ UNIMPLEMENTED    │ REFUSED           │ REFUSED             │ full: queue ─► REFUSED
//! ```

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::native::{Piece, RequestHead, StreamId};

use super::calls::Call;
use super::connection::NativeConnection;
use super::dispatch::{Arrival, kept, takes_one_message};
use super::entry::Entry;
use super::queue::Urgency;
use crate::bridge::OpenedStream;
use crate::codec;
use crate::status::Status;

/// A request that waits for room to run.
pub(super) struct Queued {
    connection: Rc<NativeConnection>,
    stream: StreamId,
    head: RequestHead,
    meta: Bytes,
    message: Option<Bytes>,
    end: bool,
    at: Duration,
    /// Where its messages gather meanwhile, if it has a stream of them.
    opened: Option<OpenedStream>,
}

impl NativeConnection {
    #[inline]
    pub(super) fn admit(self: &Rc<Self>, place: usize, arrival: Arrival<'_, '_>) {
        let core = Rc::clone(self.core());
        let entry = core.entry(place);
        if arrival.head.codec != entry.codec_in() || arrival.head.compression & 0xF != 0 {
            return self.refuse_codec(entry, arrival.stream, arrival.head);
        }
        let is_whole = arrival.message.is_some() && arrival.end;
        if takes_one_message(entry.method().kind) && !is_whole {
            return self.await_rest(arrival);
        }
        if self.calls.borrow().len() >= core.settings().in_flight_per_connection_max {
            return self.refuse(arrival.stream, "the connection has as many calls as it may have");
        }
        if core.shared().in_flight.load(Ordering::Relaxed) >= core.settings().in_flight_max {
            return self.refuse(arrival.stream, "the server has as many calls as it may have");
        }
        // Whoever waits already comes first, or, newest first, is served by the queue's rule.
        let has_time = !core.is_spent(arrival.at) || !takes_one_message(entry.method().kind);
        if entry.has_queue() || !entry.enter(has_time) {
            return self.enqueue(place, arrival);
        }
        self.run(place, arrival, Duration::ZERO);
    }

    #[cold]
    fn refuse_codec(&self, entry: &Entry, stream: StreamId, head: &RequestHead) {
        let message = match head.compression & 0xF {
            0 => {
                let (takes, comes) = (codec::name(entry.codec_in()), codec::name(head.codec));
                format!("{} takes {takes}, and was sent {comes}", entry.method().name)
            }
            number => format!("the message is compressed by {number}, which nobody announced"),
        };
        self.fail(stream, &Status::unimplemented(message));
    }

    #[cold]
    fn enqueue(self: &Rc<Self>, place: usize, arrival: Arrival<'_, '_>) {
        let Arrival { stream, head, meta, message, end, at, .. } = arrival;
        let core = Rc::clone(self.core());
        let entry = core.entry(place);
        self.calls.borrow_mut().insert(Call::queued(stream));
        let takes_stream = entry.method().kind.streams_in();
        let opened = takes_stream.then(|| self.open_requests(entry, stream, message.take(), end));
        let queued = Queued {
            connection: Rc::clone(self),
            stream,
            head: *head,
            meta: kept(meta),
            message: message.take().map(Piece::into_bytes),
            end,
            at,
            opened,
        };
        let timeout = Duration::from_micros(head.timeout_us.into());
        let deadline = (!timeout.is_zero()).then(|| at + timeout);
        let shed = entry.push(queued, Urgency { priority: head.priority, deadline }, at);
        if let Some(shed) = shed {
            shed.shed(entry);
        }
        core.keep_queue(place);
    }
}

impl Queued {
    /// Answers without having run it.
    pub(super) fn shed(self, entry: &Entry) {
        if self.connection.calls.borrow_mut().remove(self.stream).is_some() {
            entry.sheet().shed();
            self.connection.core().share().count_shed();
            self.connection.refuse(self.stream, "the method has as many calls as it may have");
        }
    }

    /// Answers that its deadline has passed.
    pub(super) fn expire(self, entry: &Entry) {
        if self.connection.calls.borrow_mut().remove(self.stream).is_some() {
            self.connection.expire(entry, self.stream);
        }
    }

    /// Runs it in the place that it was given, after it has waited for `waited`. False if it has
    /// been cancelled meanwhile, so that the place is still free.
    pub(super) fn run(self, place: usize, waited: Duration) -> bool {
        let Self { connection, stream, head, meta, message, end, at, opened } = self;
        if connection.calls.borrow_mut().remove(stream).is_none() {
            return false;
        }
        let (head, meta) = (&head, &Piece::Owned(meta));
        let message = &mut message.map(Piece::Owned);
        let arrival = Arrival { stream, head, meta, message, end, at, opened };
        connection.run(place, arrival, waited);
        connection.begin_deferred();
        true
    }
}
