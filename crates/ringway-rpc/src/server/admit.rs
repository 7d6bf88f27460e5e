//! Admission control: the checks that a call passes, in this order, before its body is decoded.
//!
//! ```text
//! codec ─► calls of the connection ─► calls of the server ─► replies that wait ─► the method's limit ─► run
//!   │ UNIMPLEMENTED    │ REFUSED           │ REFUSED            │ many: backlog     │ full: queue ─► REFUSED
//! ```

use std::rc::Rc;
use std::time::Duration;

use ringway_wire::native::{RequestHead, StreamId};

use super::connection::ServerConnection;
use super::dispatch::{Arrival, takes_one_message};
use super::machine::Machine;
use super::method_entry::MethodEntry;
use crate::call::codec;
use crate::call::status::Status;

const CONNECTION_FULL: &str = "the connection has reached the server's limit of unfinished calls (in_flight_per_connection_max)";
pub(super) const SERVER_FULL: &str =
    "the server has reached its limit of waiting calls (in_flight_max)";

/// The message for calls that the memory of their core has no room for.
pub(super) const MEMORY_FULL: &str =
    "the core has as much memory in use for calls as it may have (unread_bytes_max)";

impl<M: Machine> ServerConnection<M> {
    #[inline]
    pub(super) fn admit(self: &Rc<Self>, method_index: usize, arrival: Arrival<'_, '_>) {
        let core = Rc::clone(self.core());
        let entry = core.entry(method_index);
        if !M::takes(arrival.head, entry.codec_in()) || arrival.head.compression & 0xF != 0 {
            return self.refuse_codec(entry, arrival.stream, arrival.head);
        }
        let is_whole = arrival.message.is_some() && arrival.end;
        if takes_one_message(entry.method().kind) && !is_whole {
            return self.await_rest(arrival);
        }
        if self.calls.borrow().len() >= core.settings().in_flight_per_connection_max {
            return self.refuse_limited(arrival.stream, CONNECTION_FULL);
        }
        if core.shared().is_full() && self.is_still_full() {
            return self.refuse_limited(arrival.stream, SERVER_FULL);
        }
        if self.has_much_waiting() && self.keeps_order() {
            return self.hold_back(method_index, arrival);
        }
        self.let_in(method_index, arrival);
    }

    /// Runs a call that was admitted, or queues it for its method.
    #[inline]
    pub(super) fn let_in(self: &Rc<Self>, method_index: usize, arrival: Arrival<'_, '_>) {
        let core = Rc::clone(self.core());
        let entry = core.entry(method_index);
        // Queued calls come first; the queue decides whether the oldest or the newest runs.
        let has_time = !core.is_spent(arrival.at) || !takes_one_message(entry.method().kind);
        if entry.has_queue() || !entry.enter(has_time) {
            return self.enqueue(method_index, arrival);
        }
        self.run(method_index, arrival, Duration::ZERO);
    }

    /// Whether the server is full without this request, which may have counted while it was incomplete.
    #[cold]
    fn is_still_full(&self) -> bool {
        self.update_usage();
        self.core().shared().is_full()
    }

    #[cold]
    fn refuse_codec(&self, entry: &MethodEntry, stream: StreamId, head: &RequestHead) {
        let message = match head.compression & 0xF {
            0 => {
                let (takes, comes) = (codec::name(entry.codec_in()), codec::name(head.codec));
                format!("{} takes {takes}, and was sent {comes}", entry.method().name)
            }
            number => format!("the message is compressed with an unknown method, {number}"),
        };
        self.fail(stream, &Status::unimplemented(message));
    }
}
