//! Runs a call in place, and as a task only if its handler waits.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringway_wire::native::{Piece, StreamId};

use super::admit::MEMORY_FULL;
use super::admitted::{Admitted, Deferred};
use super::call_times::{Answered, CallTimes, given_up};
use super::calls::ServedCall;
use super::connection::ServerConnection;
use super::core::attempt;
use super::dispatch::{Arrival, takes_one_message};
use super::interceptor::{self, Handlers};
use super::log::log;
use super::machine::Machine;
use super::method_entry::MethodEntry;
use super::observe::{close_span, span_of};
use super::request_meta::RequestMeta;
use super::waiting::{Running, drop_waiting, spawn_waiting};
use crate::call::context::{Begun, Context};
use crate::call::method::Kind;
use crate::call::status::{Code, Status};
use crate::connection::table::Handles;
use crate::limits;
use crate::remote::mailbox;
use crate::service::{Begin, Encoded, Started};
use crate::stream::remote::{HeldBy, OpenedStream, StreamAt, pass_on};

/// The message that explains a sink which is kept after its handler's return.
const KEPT_SINK: &str = "a handler has returned while its `Sink` is kept: the stream is over, and what is \
                         sent on it later is lost; return when the stream is to end";

impl<M: Machine> ServerConnection<M> {
    /// Runs an admitted call that has spent `waited` in a queue.
    #[inline]
    pub(super) fn run(
        self: &Rc<Self>,
        method_index: usize,
        arrival: Arrival<'_, '_>,
        waited: Duration,
    ) {
        let core = self.core();
        let entry = core.entry(method_index);
        let method = entry.method();
        let Arrival { stream, head, meta, message, end, at, opened } = arrival;
        let began = core.begins_at(method_index, at + waited);
        let times = CallTimes { began, waited };
        let said = match meta.is_empty() {
            true => None,
            false => match RequestMeta::read(meta) {
                Ok(said) => Some(said),
                Err(status) => return self.end_unrun(entry, stream, &status),
            },
        };
        let metadata = said.as_ref().map_or(0, |said| said.metadata.memory());
        if metadata >= limits::METADATA_COUNTED_MIN && !core.budget().has_room_for(metadata) {
            entry.leave();
            return self.refuse_limited(stream, MEMORY_FULL);
        }
        let timeout_us = u64::from(head.timeout_us);
        let timeout = (timeout_us > 0).then(|| Duration::from_micros(timeout_us));
        let timeout = said.as_ref().and_then(|said| said.timeout).or(timeout);
        // Earlier calls of the queue or of this turn may have taken long.
        let late = began.saturating_sub(at);
        if timeout.is_some_and(|timeout| timeout <= late) {
            entry.leave();
            return self.expire(entry, stream);
        }
        if late >= limits::LATE && entry.is_adaptive() {
            entry.press();
        }
        if M::TRANSLATES
            && let Err(status) = self.translate(stream, message)
        {
            return self.end_unrun(entry, stream, &status);
        }
        let deadline = timeout.and_then(|timeout| core.instant(at.saturating_add(timeout)));
        let site = Rc::clone(self.site());
        let mut context = Context::begin(Begun { method, site, deadline, attempt: head.attempt });
        if let Some(RequestMeta { metadata, trace, .. }) = said {
            context.set_said(metadata, trace);
        }
        let len = match end {
            true => message.as_ref().map_or(0, |message| message.len()),
            false => 0,
        };
        let (message, carried) = match method.kind {
            Kind::Unary => (message.take(), None),
            Kind::ServerStream => (message.take(), Some(self.open_stream(entry, stream))),
            Kind::ClientStream | Kind::Bidi => {
                let open = || self.open_requests(entry, stream, message.take(), end);
                let carried = opened.unwrap_or_else(open);
                (None, Some(carried))
            }
        };
        entry.counters().started(message.as_ref().map_or(0, |message| message.len()));
        let admitted = Admitted { method_index, stream, times };
        let is_json = M::SPEAKS_JSON;
        if takes_one_message(method.kind) {
            let held = entry.is_held().then(|| core.hold(method_index));
            let stream = carried;
            self.begin(admitted, Begin { context, message, stream, held, is_json });
        } else {
            let (stream, held) = (carried, None);
            self.defer(admitted, Begin { context, message: None, stream, held, is_json }, len);
        }
    }

    fn translate(&self, stream: StreamId, message: &mut Option<Piece<'_>>) -> Result<(), Status> {
        let translation = self.machine().take_translation(stream);
        if let (Some(translation), Some(given)) = (translation, message.as_mut()) {
            let given_bytes = std::mem::replace(given, Piece::EMPTY).into_bytes();
            let received = given_bytes.len();
            *given = Piece::Owned(translation.apply(given_bytes)?);
            if given.len() > received {
                self.machine().note_translated(stream, given.len() - received);
            }
        }
        Ok(())
    }

    /// Defers a handler of a request stream until all received bytes have been processed: a short stream
    /// is complete then, and its handler does not have to wait.
    fn defer(&self, admitted: Admitted, begin: Begin<'static>, len: usize) {
        let call =
            ServedCall::running(admitted.stream, begin.context.clone(), admitted.times.began);
        self.calls.borrow_mut().insert(call);
        let in_flight = self.core().count_in_flight();
        self.deferred.borrow_mut().push_back(Deferred { admitted, begin, in_flight, len });
        self.deferred_len.set(self.deferred_len.get() + len);
    }

    /// Whether deferred handlers have not started yet.
    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.borrow().is_empty()
    }

    /// Whether so much waits for handlers to start that no more is to be received before. What waits for the client
    /// does not begin unless that is read.
    #[inline]
    pub(super) fn has_much_deferred(&self) -> bool {
        self.deferred_len.get() >= limits::DEFERRED_BYTES_MAX
            && !(self.has_much_waiting() && self.is_paused())
    }

    /// The bytes of whole requests that wait for their handlers to start until the client has taken replies. Those that
    /// wait for their core are few, and begin at once.
    #[inline]
    pub(super) fn waiting_len(&self) -> usize {
        if M::HAS_WINDOWS { self.deferred_len.get() } else { 0 }
    }

    fn next_deferred(&self) -> Option<Deferred> {
        let next = self.deferred.borrow_mut().pop_front()?;
        self.deferred_len.set(self.deferred_len.get() - next.len);
        Some(next)
    }

    /// Starts deferred handlers, at least one and as many as this turn has time for. The connection's
    /// task starts the others.
    pub(super) fn begin_deferred(self: &Rc<Self>) {
        if self.has_deferred() {
            self.core().start_batching();
            self.begin_in_time();
            self.core().stop_batching();
        }
    }

    fn begin_in_time(self: &Rc<Self>) {
        loop {
            if self.has_much_waiting() && self.is_paused() {
                return; // replies that leave go on with this
            }
            let Some(next) = self.next_deferred() else { return };
            let Deferred { mut admitted, begin, in_flight, .. } = next;
            admitted.times = self.core().put_off(admitted.method_index, admitted.times);
            drop(in_flight); // only handlers that wait are in flight
            // The call is gone if the client has cancelled it meanwhile. Only the handler may hold the
            // context, or its memory cannot be reused.
            let call = self.calls.borrow_mut().remove(admitted.stream);
            match call.map(drop) {
                Some(()) if self.is_late(&begin) => self.expire_deferred(&admitted),
                Some(()) => self.begin(admitted, begin),
                None => self.end_deferred(&admitted, &begin.context),
            }
            if !self.core().has_time() && self.has_deferred() {
                return self.wake();
            }
        }
    }

    /// Whether the call's deadline has passed while it was deferred.
    fn is_late(&self, begin: &Begin<'_>) -> bool {
        begin.context.deadline().is_some_and(|deadline| {
            let core = self.core();
            let now = core.instant(core.now().max(core.last_look()));
            now.is_some_and(|now| deadline <= now)
        })
    }

    #[cold]
    fn expire_deferred(&self, admitted: &Admitted) {
        let core = self.core();
        let entry = core.entry(admitted.method_index);
        self.expire(entry, admitted.stream);
        core.end(entry, admitted.times, Answered::none(Code::DeadlineExceeded));
    }

    /// The first deadline of a deferred call.
    #[cold]
    pub(super) fn deferred_until(&self) -> Option<Duration> {
        let deferred = self.deferred.borrow();
        let deadlines = deferred.iter().filter_map(|call| call.begin.context.deadline());
        deadlines.min().map(|deadline| self.core().time_of(deadline))
    }

    /// Answers deferred calls that wait for their client and whose deadlines have passed.
    #[cold]
    pub(super) fn expire_late_deferred(&self) {
        loop {
            let late = self.deferred.borrow().iter().position(|call| self.is_late(&call.begin));
            let Some(late) = late.and_then(|at| self.take_deferred(at)) else { return };
            let call = self.calls.borrow_mut().remove(late.admitted.stream);
            match call.map(drop) {
                Some(()) => self.expire_deferred(&late.admitted),
                None => self.end_deferred(&late.admitted, &late.begin.context),
            }
        }
    }

    /// Drops a deferred call that was cancelled, so that it keeps no memory while it waits for its client.
    #[cold]
    pub(super) fn forget_deferred(&self, stream: StreamId) {
        let at = self.deferred.borrow().iter().position(|call| call.admitted.stream == stream);
        if let Some(Deferred { admitted, begin, .. }) = at.and_then(|at| self.take_deferred(at)) {
            self.end_deferred(&admitted, &begin.context);
        }
    }

    fn take_deferred(&self, at: usize) -> Option<Deferred> {
        let call = self.deferred.borrow_mut().remove(at)?;
        self.deferred_len.set(self.deferred_len.get() - call.len);
        Some(call)
    }

    /// Drops deferred calls whose connection has ended before their handlers started.
    pub(super) fn drop_deferred(&self) {
        while let Some(Deferred { admitted, begin, .. }) = self.next_deferred() {
            self.end_deferred(&admitted, &begin.context);
        }
    }

    /// Refuses deferred calls because their time has passed before their handlers started.
    pub(super) fn refuse_deferred(&self, why: &'static str) {
        while let Some(Deferred { admitted, begin, .. }) = self.next_deferred() {
            let call = self.calls.borrow_mut().remove(admitted.stream);
            match call.map(drop) {
                Some(()) => {
                    self.refuse_ending(admitted.stream, why);
                    let (core, answered) = (self.core(), Answered::none(Code::Unavailable));
                    core.end(core.entry(admitted.method_index), admitted.times, answered);
                }
                None => self.end_deferred(&admitted, &begin.context),
            }
        }
    }

    fn end_deferred(&self, admitted: &Admitted, context: &Context) {
        let core = self.core();
        core.end(core.entry(admitted.method_index), admitted.times, given_up(context));
    }

    #[inline]
    fn begin(self: &Rc<Self>, admitted: Admitted, begin: Begin<'_>) {
        let context = begin.context.clone();
        let mut scratch = self.take_scratch();
        let span = span_of(&context);
        self.core().entry(admitted.method_index).label().put();
        let start = || context.enter(|| self.start(admitted.method_index, begin, &mut scratch));
        // Subscribers of spans are user code as well.
        let started = attempt(|| span.in_scope(start));
        let failed = |panic| {
            let entry = self.core().entry(admitted.method_index);
            Started::Done(Err(self.core().on_panic(entry, &span, panic)))
        };
        match started.unwrap_or_else(failed) {
            Started::Done(outcome) => {
                let answered = self.finish(&admitted, &context, outcome, &mut scratch);
                self.core().end_in_place(admitted.method_index, admitted.times, answered);
                close_span(span, answered.code);
                context.recycle();
            }
            Started::Refused(why) => {
                let code = Code::ResourceExhausted;
                self.refuse_limited(admitted.stream, why);
                self.core().end_in_place(
                    admitted.method_index,
                    admitted.times,
                    Answered::none(code),
                );
                close_span(span, code);
                context.recycle();
            }
            Started::Waiting(handler) => {
                self.core().interrupt_batch(admitted.times);
                let running = Running { context, handler, span };
                match self.is_over(&admitted) {
                    true => drop_waiting(self, &admitted, running),
                    false => spawn_waiting(self, admitted, running),
                }
            }
        }
        self.keep_scratch(scratch);
    }

    /// Starts the handler, behind the interceptors if there are any.
    #[inline]
    fn start(
        self: &Rc<Self>,
        method_index: usize,
        begin: Begin<'_>,
        scratch: &mut Vec<u8>,
    ) -> Started {
        let core = self.core();
        match core.has_interceptors() {
            false => core.entry(method_index).handler().start(begin, scratch),
            true => interceptor::start(
                Rc::clone(core) as Rc<dyn Handlers>,
                method_index,
                begin,
                scratch,
            ),
        }
    }

    /// Whether the handler has ended its call before it returned, as handlers of streams can.
    #[inline]
    fn is_over(&self, admitted: &Admitted) -> bool {
        let Admitted { method_index, stream, .. } = *admitted;
        let is_unary = self.core().entry(method_index).method().kind == Kind::Unary;
        !is_unary && self.known_streams().key(stream).is_none()
    }

    /// Sends the outcome of a call to its client, unless the handler has already ended the call.
    #[inline]
    pub(super) fn finish(
        &self,
        admitted: &Admitted,
        context: &Context,
        outcome: Result<Encoded, Status>,
        scratch: &mut Vec<u8>,
    ) -> Answered {
        let Admitted { method_index, stream, .. } = *admitted;
        let has_stream = self.core().entry(method_index).method().kind != Kind::Unary;
        if has_stream && !self.may_end(stream, context) {
            return self.given_up(stream, context);
        }
        let has_returned_well = outcome.is_ok();
        let answered = self.answer(stream, outcome, scratch, context);
        if has_stream {
            if has_returned_well {
                self.look_for_kept_sink(method_index, stream);
            }
            self.streams().finish_served(stream);
            self.renew_lease();
        }
        answered
    }

    /// Whether the stream is still open, so that its handler's return ends it. Operations that handles on
    /// other threads requested before are carried out first; otherwise messages of a successful call
    /// would be lost.
    #[inline]
    fn may_end(&self, stream: StreamId, context: &Context) -> bool {
        let streams = self.known_streams();
        let Some(key) = streams.key(stream) else { return false };
        if !streams.has_handles(key) {
            return true;
        }
        drop(streams);
        if let Some(carrier) = self.carrier.get() {
            let at = StreamAt { carrier, key, held_by: HeldBy::Server };
            // A reader task may not have started yet, and a cancellation may still be queued.
            mailbox::run_waiting(carrier.core());
            context.enter(|| pass_on(at)); // initial metadata goes with the first message
        }
        self.known_streams().stream(key).is_some()
    }

    /// Logs, once for each method and core, that a handler has returned while its sink is kept: the stream
    /// is over, and what is sent later goes nowhere.
    fn look_for_kept_sink(&self, method_index: usize, stream: StreamId) {
        let streams = self.known_streams();
        let is_kept = streams.key(stream).is_some_and(|key| streams.has_open_writer(key));
        drop(streams);
        let entry = self.core().entry(method_index);
        if is_kept && entry.is_first_kept_sink() {
            let method = entry.method().name();
            log(|| tracing::warn!(method, "{KEPT_SINK}"));
        }
    }

    fn end_unrun(&self, entry: &MethodEntry, stream: StreamId, status: &Status) {
        entry.leave();
        self.fail(stream, status);
    }

    /// Answers a call whose deadline has passed before it could run.
    #[cold]
    pub(super) fn expire(&self, entry: &MethodEntry, stream: StreamId) {
        self.core().share().count_expired();
        entry.counters().expired();
        let message = "the deadline passed before the handler could run";
        self.fail(stream, &Status::deadline_exceeded(message));
    }

    /// Opens the stream of a call for the handles that its method's kind has.
    fn open_stream(self: &Rc<Self>, entry: &MethodEntry, stream: StreamId) -> OpenedStream {
        let handles = match entry.method().kind {
            Kind::ClientStream => Handles::Reader,
            Kind::Unary | Kind::ServerStream => Handles::Writer,
            Kind::Bidi => Handles::Both,
        };
        let carrier = self.carrier();
        let mut streams = self.streams();
        let key = streams.insert(stream, handles);
        streams.count_on(key, Arc::clone(entry.counters()));
        drop(streams);
        self.renew_lease();
        OpenedStream::new(StreamAt { carrier, key, held_by: HeldBy::Server })
    }

    /// Opens a stream of requests with the first message and the end, if those came with the call.
    pub(super) fn open_requests(
        self: &Rc<Self>,
        entry: &MethodEntry,
        stream: StreamId,
        message: Option<Piece<'_>>,
        end: bool,
    ) -> OpenedStream {
        let opened = self.open_stream(entry, stream);
        let mut streams = self.streams();
        if let Some(message) = message {
            let _first_finds_room = streams.push(stream, message);
        }
        if end {
            streams.end(stream);
        }
        opened
    }
}
