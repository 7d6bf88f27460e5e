//! From what a client did to what its call does.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_net::View;
use ringway_wire::native::{Piece, RequestHead, ServerEvent, StreamId};

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

/// A request as it came, its bytes still those that were received where that is possible. It refers
/// to the machine's event instead of moving it: a call has no cheaper part than its copies.
pub(super) struct Arrival<'a, 'i> {
    pub(super) stream: StreamId,
    pub(super) head: &'a RequestHead,
    pub(super) meta: &'a Piece<'i>,
    /// Whoever uses it takes it.
    pub(super) message: &'a mut Option<Piece<'i>>,
    /// The client sends nothing more.
    pub(super) end: bool,
    /// When it came.
    pub(super) at: Duration,
    /// Its stream, if that was opened before.
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
            ServerEvent::Named { method, meta } => self.learn(method, &meta),
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
            ServerEvent::PeerLeaving { code, reason } => {
                let reason = String::from_utf8_lossy(&reason);
                log(|| tracing::debug!(code, %reason, "a client announces that it leaves"));
            }
        }
    }

    #[inline(always)]
    fn on_request(self: &Rc<Self>, arrival: Arrival<'_, '_>) {
        let number = arrival.head.method;
        let meaning = match M::NUMBERS_ARE_PLACES {
            true => Lookup::of_place(number),
            false => self.method_ids.borrow().meaning(number),
        };
        match meaning {
            Lookup::Method(place) => self.admit(place, arrival),
            Lookup::Unsaid => self.on_named_request(arrival),
            Lookup::Unknown => self.refuse_method(arrival.stream, None),
        }
    }

    /// The first call of a number says the name that it stands for.
    #[cold]
    fn on_named_request(self: &Rc<Self>, arrival: Arrival<'_, '_>) {
        let Some(name) = request_meta::method_name(arrival.meta) else {
            let status = Status::unimplemented("the request names no method");
            return self.fail(arrival.stream, &status);
        };
        let place = self.core().place_of(name);
        self.method_ids.borrow_mut().learn(arrival.head.method, place);
        match place {
            Some(place) => self.admit(place, arrival),
            None => self.refuse_method(arrival.stream, Some(name)),
        }
    }

    /// A call that was answered already has said the name of a number.
    #[cold]
    fn learn(&self, method: u32, meta: &[u8]) {
        if let Some(name) = request_meta::method_name(meta) {
            let place = self.core().place_of(name);
            self.method_ids.borrow_mut().learn(method, place);
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

    /// The machine has ended a call: as UNAVAILABLE when the time to drain was over, else for a limit.
    #[cold]
    fn on_failed(&self, stream: StreamId, code: Code) {
        match code {
            Code::Unavailable => self.core().share().count_cut_off(),
            _ => self.streams().discard(stream),
        }
        self.on_gone(stream, code, why_failed(code));
    }

    /// Why a call is over of which the machine has said nothing yet.
    #[cold]
    pub(super) fn failure(&self, stream: StreamId) -> Option<Status> {
        let code = Code::from_wire(self.machine().failure(stream)?);
        Some(Status::new(code, why_failed(code)))
    }

    /// A call is over at the client's side and in the machine: its handler is dropped. Whether it had
    /// one.
    fn on_gone(&self, stream: StreamId, code: Code, reason: &str) -> bool {
        let call = self.calls.borrow_mut().remove(stream);
        self.streams().finish(stream, Err(Status::new(code, reason.to_owned())));
        let ran = call.as_ref().is_some_and(ServedCall::is_running);
        if let Some(call) = call {
            call.cancel(code, reason);
        }
        ran
    }

    /// Ends a call that runs, from here.
    pub(super) fn end_call(&self, stream: StreamId, status: &Status) {
        let call = self.calls.borrow_mut().remove(stream);
        self.fail(stream, status);
        if let Some(call) = call {
            call.cancel(status.code(), status.message());
        }
    }

    /// Has the machine keep a request of one message until that and the end are there.
    #[cold]
    pub(super) fn await_rest(&self, arrival: Arrival<'_, '_>) {
        let Arrival { stream, head, meta, message, end, .. } = arrival;
        if end {
            let message = "the method takes one message, and none was sent";
            return self.fail(stream, &Status::unimplemented(message));
        }
        self.machine().await_rest(stream, *head, meta, message.as_deref());
    }
}

/// Why the machine has ended a call with this code.
fn why_failed(code: Code) -> &'static str {
    match code {
        Code::Unavailable => "the server has shut down before the call was done",
        _ => "the call broke a limit of the client's or of the server's",
    }
}

/// Metadata that is to outlive the view in which it came.
pub(super) fn kept(meta: &Piece<'_>) -> Bytes {
    match meta {
        Piece::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Piece::Owned(bytes) => bytes.clone(),
    }
}

/// Whether a call of this kind begins with exactly one message of the client.
pub(super) fn takes_one_message(kind: Kind) -> bool {
    matches!(kind, Kind::Unary | Kind::ServerStream)
}
