//! Dispatches what arrives on a connection to the call that it is for.

use std::borrow::Cow;
use std::task::Waker;
use std::time::Duration;

use ringway_net::View;
use ringway_wire::native::{ClientEvent, FailedBy, Piece, StreamId};

use super::{CallSlot, OpenCalls, StreamUse};
use crate::call::metadata::Metadata;
use crate::call::small_copy;
use crate::call::status::{Code, Origin, Status};
use crate::call::zero_copy;
use crate::client::machine::ReceivingMachine;
use crate::client::pending_calls::PendingCalls;
use crate::connection::table::Unread;
use crate::slab::SlabKey;
use crate::waiters::HasErrands;

impl OpenCalls {
    /// Handles one event. Returns the number of calls that ended.
    #[inline]
    pub(super) fn on_event<M: ReceivingMachine, C>(
        &mut self,
        machine: &mut M,
        event: ClientEvent<'_>,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        match event {
            ClientEvent::Response { stream, status, meta, message } => {
                let Some(CallSlot { of, deadline, .. }) = self.leave(stream) else {
                    return 0;
                };
                let outcome = match status == 0 && meta.is_empty() {
                    true => Ok(None),
                    false => response(status, &meta, deadline <= now).map(Some),
                };
                self.has_answered |= !outcome.as_ref().is_err_and(Status::is_refused);
                match of {
                    StreamUse::Unary(call) => {
                        woken.extend(end_unary(pending, call, outcome, message, now));
                    }
                    StreamUse::Streams => self.end_stream(stream, outcome, message),
                }
                return 1;
            }
            ClientEvent::Failed { stream, status, by, text } => {
                let Some(CallSlot { of, deadline, .. }) = self.leave(stream) else {
                    return 0;
                };
                let failure = failure(status, by, text, deadline <= now);
                self.has_answered = true;
                match of {
                    StreamUse::Unary(call) => woken.extend(pending.end(call, Err(failure), now)),
                    StreamUse::Streams => self.end_stream(stream, Err(failure), None),
                }
                return 1;
            }
            ClientEvent::Message { stream, message } => {
                return self.message(machine, stream, message, now, pending, woken);
            }
            ClientEvent::Initial { stream, meta } => {
                // The reply decides the outcome, not what comes before it.
                let metadata = Metadata::readable_of_wire(&meta);
                match self.use_of(stream) {
                    Some(StreamUse::Unary(call)) => {
                        if let Some(meta) = pending.meta(call) {
                            meta.initial = metadata;
                        }
                    }
                    Some(StreamUse::Streams) => self.streams.initial(stream, metadata),
                    None => {}
                }
            }
            ClientEvent::Writable { stream } => self.streams.writable(stream),
            ClientEvent::Leaving { accepted, reason, .. } => {
                self.accepted = Some(accepted);
                if !reason.is_empty() {
                    let printable = |char: char| if char.is_control() { ' ' } else { char };
                    self.go_away_reason =
                        String::from_utf8_lossy(&reason).chars().map(printable).collect();
                }
            }
            ClientEvent::Capacity => {}
        }
        0
    }

    /// Fast path for consecutive stream messages.
    #[inline]
    pub(super) fn take_messages<M: ReceivingMachine, C>(
        &mut self,
        machine: &mut M,
        input: &mut &[u8],
        view: Option<&View>,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        let mut ended = 0;
        while let Some((stream, message)) = machine.receive_message(input) {
            let message = zero_copy::in_place(message, view);
            if self.streams.push(stream, message.clone()).is_err() {
                ended += self.message(machine, stream, message, now, pending, woken);
            }
        }
        ended
    }

    fn message<M: ReceivingMachine, C>(
        &mut self,
        machine: &mut M,
        stream: StreamId,
        message: Piece<'_>,
        now: Duration,
        pending: &mut PendingCalls<C>,
        woken: &mut Vec<Waker>,
    ) -> u32 {
        match self.use_of(stream) {
            Some(StreamUse::Unary(call)) => {
                machine.taken(stream, 1);
                if pending.message(call, small_copy::keep(message)) {
                    return 0;
                }
                let status = Status::unimplemented("the reply has more than one message");
                woken.extend(pending.end(call, Err(status), now));
                self.end_here(machine, stream, Code::Cancelled, "one message was expected")
            }
            Some(StreamUse::Streams) => match self.streams.push(stream, message) {
                Ok(()) | Err(Unread::NoReader) => 0,
                Err(Unread::Full) => {
                    let why = "too many messages wait for their reader";
                    let ended = self.end_here(machine, stream, Code::ResourceExhausted, why);
                    self.streams.finish(stream, Err(Status::resource_exhausted(why)));
                    ended
                }
            },
            None => 0,
        }
    }

    fn end_stream(
        &mut self,
        stream: StreamId,
        outcome: Result<Option<Metadata>, Status>,
        message: Option<Piece<'_>>,
    ) {
        let mut outcome = outcome.map(Option::unwrap_or_default);
        if let (Ok(_), Some(message)) = (&outcome, message)
            && self.streams.push(stream, message) == Err(Unread::Full)
        {
            let why = "too many messages wait for their reader";
            outcome = Err(Status::resource_exhausted(why));
        }
        self.timers.ended(stream.slot(), outcome.as_ref().err(), self.streams.errands());
        self.streams.finish(stream, outcome);
    }
}

/// The outcome in a response. A gRPC server may notice the deadline first and cancel the call, so a late
/// CANCELLED counts as DEADLINE_EXCEEDED.
fn response(status: u8, meta: &[u8], is_late: bool) -> Result<Metadata, Status> {
    Status::of_response(status, meta).map_err(|failure| late(failure, is_late))
}

/// The failure of a call that has no status of its server's.
fn failure(status: u8, by: FailedBy, text: Cow<'static, str>, is_late: bool) -> Status {
    let origin = match by {
        FailedBy::Client => Origin::Local,
        FailedBy::Server => Origin::Peer,
    };
    late(Status::new(Code::from_wire(status), text).with_origin(origin), is_late)
}

fn late(failure: Status, is_late: bool) -> Status {
    match failure.code() {
        Code::Cancelled if is_late => failure.with_code(Code::DeadlineExceeded),
        _ => failure,
    }
}

#[inline(always)] // for each protocol
fn end_unary<C>(
    pending: &mut PendingCalls<C>,
    call: SlabKey,
    outcome: Result<Option<Metadata>, Status>,
    message: Option<Piece<'_>>,
    now: Duration,
) -> Option<Waker> {
    let outcome = match outcome {
        Ok(trailers) => {
            if let Some(trailers) = trailers
                && let Some(meta) = pending.meta(call)
            {
                meta.trailers = trailers;
            }
            Ok(message.map(small_copy::keep))
        }
        Err(status) => Err(status),
    };
    pending.end(call, outcome, now)
}
