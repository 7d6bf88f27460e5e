//! Turns what a client sent into what its calls do.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::View;
use ringway_wire::native::{Piece, RequestHead, ServerEvent, StreamId};

use super::admit::SERVER_FULL;
use super::calls::ServedCall;
use super::connection::ServerConnection;
use super::log::log;
use super::machine::Machine;
use super::method_ids::Lookup;
use super::request_meta;

use crate::call::method::Kind;
use crate::call::status::{Code, Status};
use crate::call::zero_copy;
use crate::connection::table::Unread;
use crate::stream::remote::OpenedStream;

/// A request as it was received, borrowing received bytes where possible. It refers to the machine's
/// event instead of moving it, because copies are the largest cost of a small call.
pub(super) struct Arrival<'a, 'i> {
    pub(super) stream: StreamId,
    pub(super) head: &'a RequestHead,
    pub(super) meta: &'a Piece<'i>,
    /// The message, if there is one; its user takes it out.
    pub(super) message: &'a mut Option<Piece<'i>>,
    /// Whether the client sends nothing more.
    pub(super) end: bool,
    /// The time of arrival.
    pub(super) at: Duration,
    /// The request's stream, if it was opened while the request was queued.
    pub(super) opened: Option<OpenedStream>,
}

impl<M: Machine> ServerConnection<M> {
    #[inline]
    pub(super) fn on_event(
        self: &Rc<Self>,
        mut event: ServerEvent<'_>,
        view: Option<&View>,
        now: Duration,
    ) {
        if let ServerEvent::Request { message: Some(message), .. }
        | ServerEvent::Message { message, .. } = &mut event
        {
            zero_copy::keep(message, view);
        }
        if let ServerEvent::Request { stream, head, meta, message, end } = &mut event {
            let (stream, end) = (*stream, *end);
            let opened = None;
            return self.on_request(Arrival { stream, head, meta, message, end, at: now, opened });
        }
        self.on_other_event(event);
    }

    #[inline]
    pub(super) fn on_plain(
        self: &Rc<Self>,
        stream: StreamId,
        head: &RequestHead,
        message: Piece<'_>,
        now: Duration,
    ) {
        let (meta, message, end, at) = (&Piece::EMPTY, &mut Some(message), true, now);
        self.on_request(Arrival { stream, head, meta, message, end, at, opened: None });
    }

    fn on_other_event(self: &Rc<Self>, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Request { .. } => unreachable!("requests have been served"),
            ServerEvent::Named { method, meta } => self.record_name(method, &meta),
            ServerEvent::Message { stream, message, end } => {
                self.on_message(stream, message, end);
            }
            ServerEvent::End { stream } => self.on_end(stream),
            ServerEvent::Cancelled { stream, code, reason } => {
                let reason = String::from_utf8_lossy(&reason);
                if self.on_gone(stream, Code::from_wire(code), &reason) {
                    self.core().share().count_cancelled();
                }
            }
            ServerEvent::Failed { stream, code } => self.on_failed(stream, Code::from_wire(code)),
            ServerEvent::Writable { stream } => self.streams().writable(stream),
            ServerEvent::Guest { stream, event } => {
                if let Some(host) = self.guest_host.get() {
                    host.on_event(stream, event);
                }
            }
            ServerEvent::PeerLeaving { code, reason } => {
                let reason = String::from_utf8_lossy(&reason);
                log(|| tracing::debug!(code, %reason, "a client announces that it leaves"));
            }
        }
    }

    #[inline(always)]
    fn on_request(self: &Rc<Self>, arrival: Arrival<'_, '_>) {
        let number = arrival.head.method;
        let meaning = match M::NUMBERS_ARE_INDICES {
            true => Lookup::of_index(number),
            false => self.method_ids.borrow().lookup(number),
        };
        match meaning {
            Lookup::Method(method_index) => self.admit(method_index, arrival),
            Lookup::Unnamed => self.on_named_request(arrival),
            Lookup::Unknown => self.refuse_method(arrival.stream, None),
        }
    }

    /// Runs the first call of a method number, which carries the method's name.
    #[cold]
    fn on_named_request(self: &Rc<Self>, arrival: Arrival<'_, '_>) {
        let Some(name) = request_meta::method_name(arrival.meta) else {
            let status = Status::unimplemented("the request names no method");
            return self.fail(arrival.stream, &status);
        };
        let method_index = self.core().method_index(name);
        self.method_ids.borrow_mut().record(arrival.head.method, method_index);
        match method_index {
            Some(method_index) => self.admit(method_index, arrival),
            None => self.refuse_method(arrival.stream, Some(name)),
        }
    }

    /// Records the name of a method number whose first call was answered without reaching `on_request`.
    #[cold]
    fn record_name(&self, method: u32, meta: &[u8]) {
        if let Some(name) = request_meta::method_name(meta) {
            let method_index = self.core().method_index(name);
            self.method_ids.borrow_mut().record(method, method_index);
        }
    }

    #[cold]
    fn refuse_method(&self, stream: StreamId, name: Option<&str>) {
        self.core().share().count_unknown_method();
        let name = name.unwrap_or("that was called");
        let message = format!("the server has no method {name}");
        self.fail(stream, &Status::unimplemented(message));
    }

    pub(super) fn on_message(self: &Rc<Self>, stream: StreamId, message: Piece<'_>, end: bool) {
        let is_streaming = self.known_streams().key(stream).is_some();
        if !is_streaming {
            let message = "the method takes one message, and more were sent";
            return self.end_call(stream, &Status::unimplemented(message));
        }
        let pushed = self.streams().push(stream, message);
        match pushed {
            Ok(()) | Err(Unread::NoReader) => {}
            Err(Unread::Full) => {
                let message = "too many messages wait for the handler to read them";
                return self.end_call(stream, &Status::resource_exhausted(message));
            }
        }
        if end {
            self.streams().end(stream);
        }
    }

    fn on_end(&self, stream: StreamId) {
        self.streams().end(stream);
    }

    /// Handles a call that the machine has ended: as UNAVAILABLE at the drain timeout, otherwise because
    /// of a limit.
    #[cold]
    fn on_failed(&self, stream: StreamId, code: Code) {
        match code {
            Code::Unavailable => self.core().share().count_cut_off(),
            _ => self.streams().discard(stream),
        }
        self.on_gone(stream, code, why_failed(code));
    }

    /// The failure with which the machine has ended a call, if it has.
    #[cold]
    pub(super) fn failure(&self, stream: StreamId) -> Option<Status> {
        let code = Code::from_wire(self.machine().failure(stream)?);
        Some(Status::new(code, why_failed(code)))
    }

    /// Drops the handler of a call that the client and the machine have ended. Returns whether it had
    /// one.
    fn on_gone(&self, stream: StreamId, code: Code, reason: &str) -> bool {
        let call = self.calls.borrow_mut().remove(stream);
        self.streams().finish(stream, Err(Status::new(code, reason.to_owned())));
        let ran = call.as_ref().is_some_and(ServedCall::is_running);
        if let Some(call) = call {
            call.cancel(code, reason);
        }
        if self.has_much_waiting() && self.has_deferred() {
            self.forget_deferred(stream);
        }
        ran
    }

    /// Ends a running call from the server's side.
    pub(super) fn end_call(&self, stream: StreamId, status: &Status) {
        let call = self.calls.borrow_mut().remove(stream);
        self.fail(stream, status);
        if let Some(call) = call {
            call.cancel(status.code(), status.message());
        }
        if self.has_much_waiting() && self.has_deferred() {
            self.forget_deferred(stream);
        }
    }

    /// Lets the machine collect a request until its one message and its end have arrived.
    #[cold]
    pub(super) fn await_rest(&self, arrival: Arrival<'_, '_>) {
        let Arrival { stream, head, meta, message, end, .. } = arrival;
        if end {
            let message = "the method takes one message, and none was sent";
            return self.fail(stream, &Status::unimplemented(message));
        }
        self.update_usage(); // those that came with it count as well
        if self.core().shared().is_full() {
            return self.refuse_limited(stream, SERVER_FULL);
        }
        self.machine().await_rest(stream, *head, meta, message.as_deref());
    }
}

/// The message for a call that the machine has ended with this code.
fn why_failed(code: Code) -> &'static str {
    match code {
        Code::Unavailable => "the server has shut down before the call was done",
        _ => "the call broke a limit of the client's or of the server's",
    }
}

/// Makes metadata independent of the received bytes.
pub(super) fn kept(meta: &Piece<'_>) -> Bytes {
    match meta {
        Piece::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Piece::Owned(bytes) => bytes.clone(),
    }
}

/// Whether clients send exactly one message in a call of this kind.
pub(super) fn takes_one_message(kind: Kind) -> bool {
    matches!(kind, Kind::Unary | Kind::ServerStream)
}
