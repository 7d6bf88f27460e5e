//! Requests that wait in the queue of their method, or in the backlog of their connection.
//!
//! A request belongs to its connection, where a cancellation finds it and its bytes are counted. The
//! queue of its method holds a key, which resolves to nothing once the request is gone.

use std::rc::{Rc, Weak};
use std::time::Duration;

use ringway_wire::native::{Piece, StreamId};

use super::admit::MEMORY_FULL;
use super::admitted::{AGED, DRAINED};
use super::calls::{Queued, ServedCall};
use super::connection::ServerConnection;
use super::core::QueuedGuard;
use super::dispatch::{Arrival, kept};
use super::machine::Machine;
use super::method_entry::MethodEntry;
use super::queue::Urgency;
use super::queued_key::{HasQueued, QueuedKey};

const METHOD_FULL: &str = "the method has reached its limit of concurrent calls (concurrency), and its queue is full or \
                           too slow";

impl<M: Machine> ServerConnection<M> {
    #[cold]
    pub(super) fn enqueue(self: &Rc<Self>, method_index: usize, arrival: Arrival<'_, '_>) {
        let core = Rc::clone(self.core());
        let entry = core.entry(method_index);
        let (stream, at, priority) = (arrival.stream, arrival.at, arrival.head.priority);
        let queued =
            self.keep_request(method_index, arrival, QueuedGuard::new(&core, method_index));
        let deadline = queued.until;
        let number = self.calls.borrow_mut().enqueue(stream, queued);
        let connection = Rc::downgrade(self) as Weak<dyn HasQueued>;
        let waiter = QueuedKey::new(connection, stream, number);
        let urgency = Urgency { owner: self.site().id(), priority, deadline };
        if let Some(shed) = entry.push(waiter, urgency, at) {
            shed.shed();
        }
        core.work_off_queue(method_index);
    }

    /// Makes a request independent of the received bytes.
    pub(super) fn keep_request(
        self: &Rc<Self>,
        method_index: usize,
        arrival: Arrival<'_, '_>,
        waits: QueuedGuard,
    ) -> Box<Queued> {
        let Arrival { stream, head, meta, message, end, at, opened } = arrival;
        let entry = self.core().entry(method_index);
        let takes_stream = entry.method().kind.streams_in();
        let opened_len = match takes_stream && end {
            true => message.as_ref().map_or(0, |message| message.len()),
            false => 0,
        };
        let open = || takes_stream.then(|| self.open_requests(entry, stream, message.take(), end));
        let opened = opened.or_else(open);
        let timeout = Duration::from_micros(head.timeout_us.into());
        Box::new(Queued {
            method_index,
            head: *head,
            meta: kept(meta),
            message: message.take().map(Piece::into_bytes),
            end,
            at,
            until: (!timeout.is_zero()).then(|| at + timeout),
            opened,
            opened_len,
            counted_len: self.machine().unread_len(stream),
            waits,
        })
    }

    /// Sheds the largest queued request; false if none has at least `at_least` bytes.
    #[cold]
    pub(super) fn shed_largest(&self, at_least: usize) -> bool {
        let largest = self.calls.borrow().largest_queued();
        let Some((_, stream)) = largest.filter(|(len, _)| *len >= at_least.max(1)) else {
            return false;
        };
        let call = self.calls.borrow_mut().remove(stream);
        if let Some(queued) = call.and_then(ServedCall::into_queued) {
            let entry = self.core().entry(queued.method_index);
            self.shed(entry, stream, MEMORY_FULL);
        }
        true
    }

    /// Refuses calls that have not begun because the time of the drain, or of the connection, is over.
    #[cold]
    pub(super) fn refuse_waiting(&self) {
        let why = match self.core().draining() {
            Some(_) => DRAINED,
            None => AGED,
        };
        let queued = self.calls.borrow_mut().take_queued_all();
        for call in queued {
            self.refuse_ending(call.stream(), why);
        }
        self.refuse_deferred(why);
    }

    /// Takes the request with this number from its queue, unless it has ended meanwhile.
    pub(super) fn claim(&self, stream: StreamId, number: u64) -> Option<Box<Queued>> {
        let queued = self.calls.borrow_mut().take_queued(stream, number)?;
        self.update_usage();
        Some(queued)
    }

    #[cold]
    pub(super) fn shed(&self, entry: &MethodEntry, stream: StreamId, why: &'static str) {
        entry.counters().shed();
        self.core().share().count_shed();
        self.refuse_limited(stream, why);
    }
}

impl<M: Machine> HasQueued for ServerConnection<M> {
    fn is_queued(&self, stream: StreamId, number: u64) -> bool {
        self.calls.borrow().is_queued(stream, number)
    }

    fn run_queued(self: Rc<Self>, stream: StreamId, number: u64, waited: Duration) -> bool {
        let Some(queued) = self.claim(stream, number) else { return false };
        if self.has_much_waiting() && self.is_paused() {
            self.put_back(stream, queued);
            return false;
        }
        let Queued { method_index, head, meta, message, end, at, opened, waits, .. } = *queued;
        drop(waits); // only handlers that wait are in flight
        let (head, meta) = (&head, &Piece::Owned(meta));
        let message = &mut message.map(Piece::Owned);
        self.run(method_index, Arrival { stream, head, meta, message, end, at, opened }, waited);
        self.begin_deferred();
        if M::TRANSLATES {
            self.wake(); // its messages are read once it runs
        }
        true
    }

    fn shed_queued(&self, stream: StreamId, number: u64) {
        if let Some(queued) = self.claim(stream, number) {
            let entry = self.core().entry(queued.method_index);
            self.shed(entry, stream, METHOD_FULL);
        }
    }

    fn expire_queued(&self, stream: StreamId, number: u64) {
        if let Some(queued) = self.claim(stream, number) {
            self.expire(self.core().entry(queued.method_index), stream);
        }
    }
}
