//! Encoding and sending of replies.

use ringway_wire::native::{Body, MetaWriter, Reply, StreamId};

use bytes::Bytes;
use ringway_runtime::drop_contained;

use super::call_times::{Answered, given_up};
use super::connection::ServerConnection;
use super::machine::Machine;
use crate::call::codec;
use crate::call::context::Context;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::driver::MESSAGE;
use crate::limits;
use crate::service::Encoded;

/// Lends a message to the machine, which may drop its own reference. The message's memory may belong to
/// user code, whose destructor must not run while the machine is borrowed, so the caller drops the
/// message afterwards.
#[inline]
pub(super) fn lent(bytes: &Bytes) -> Body<'_> {
    match bytes.len() <= limits::REPLY_COPY_MAX {
        true => Body::Copy(bytes),
        false => Body::Shared(bytes.clone()),
    }
}

impl<M: Machine> ServerConnection<M> {
    /// Answers a call with its handler's outcome: a message encoded into `scratch`, a message in memory
    /// of its own, or none.
    #[inline(always)]
    pub(super) fn answer(
        &self,
        stream: StreamId,
        outcome: Result<Encoded, Status>,
        scratch: &mut Vec<u8>,
        context: &Context,
    ) -> Answered {
        if context.has_initial() {
            self.send_initial(stream, context);
        }
        let trailers = context.take_trailers();
        let encoded = match outcome {
            Ok(encoded) => encoded,
            Err(status) => return self.answer_failure(stream, &status, &trailers),
        };
        let mut meta = Vec::new();
        if !trailers.is_empty() {
            trailers.write(&mut MetaWriter::new(&mut meta));
        }
        let body = match &encoded {
            Encoded::InScratch if scratch.len() > limits::REPLY_COPY_MAX => {
                Some(Body::Shared(Bytes::from(std::mem::take(scratch))))
            }
            Encoded::InScratch => Some(Body::Copy(&scratch[..])),
            Encoded::Shared(bytes) => Some(lent(bytes)),
            Encoded::Nothing => None,
        };
        let bytes = body.as_ref().map_or(0, Body::len);
        let status = match codec::check_len(bytes) {
            Ok(()) => {
                let reply = Reply { status: Code::Ok as u8, meta: &meta, message: body };
                self.respond(stream, reply)
            }
            Err(too_long) => {
                drop(body);
                let answered = self.answer_failure(stream, &too_long, &trailers);
                Some(answered.code.number())
            }
        };
        if let Encoded::Shared(bytes) = encoded {
            drop_contained(MESSAGE, bytes);
        }
        match status {
            Some(0) => Answered { code: Code::Ok, bytes },
            Some(instead) => Answered::none(Code::from_wire(instead)),
            None => self.ended_before_answer(stream),
        }
    }

    /// Sends initial metadata on its own when the stream had no message to carry it.
    #[cold]
    fn send_initial(&self, stream: StreamId, context: &Context) {
        let mut meta = Vec::new();
        context.take_initial().write(&mut MetaWriter::new(&mut meta));
        let _ended_already = self.machine().send_initial(stream, &meta);
    }

    /// The initial metadata that a handler has set, to be sent with the first message of its stream.
    #[cold]
    pub(super) fn initial_meta(&self, stream: StreamId) -> Vec<u8> {
        // A handler that has not waited yet has no task; its context is the current one.
        let waiting = self.calls.borrow_mut().context(stream);
        let mut meta = Vec::new();
        if let Some(context) = waiting.or_else(Context::current) {
            context.take_initial().write(&mut MetaWriter::new(&mut meta));
        }
        meta
    }

    /// Answers a call with the failure that its handler returned.
    #[cold]
    fn answer_failure(&self, stream: StreamId, status: &Status, trailers: &Metadata) -> Answered {
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        status.write(&mut writer);
        trailers.write(&mut writer);
        let reply = Reply { status: status.code() as u8, meta: &meta, message: None };
        self.last_failure.set(Some(Box::new((status.code(), self.core().now()))));
        match self.respond(stream, reply) {
            Some(_) => Answered::none(status.code()),
            None => self.ended_before_answer(stream),
        }
    }

    /// The outcome to count for a call that had ended before its answer.
    #[cold]
    fn ended_before_answer(&self, stream: StreamId) -> Answered {
        let failure = self.failure(stream);
        Answered::none(failure.map_or(Code::Cancelled, |status| status.code()))
    }

    /// The outcome to count for a call that ended while its handler was still running. The machine may
    /// have ended the call and told the client so.
    #[cold]
    pub(super) fn given_up(&self, stream: StreamId, context: &Context) -> Answered {
        match self.failure(stream) {
            Some(failure) => Answered::none(failure.code()),
            None => given_up(context),
        }
    }

    /// Answers a call that never reached its handler, or that was taken from it.
    #[cold]
    pub(crate) fn fail(&self, stream: StreamId, status: &Status) {
        self.answer_failure(stream, status, &Metadata::default());
        self.streams().finish(stream, Err(status.clone()));
    }

    /// Answers a call as not executed because the server ends: the client may send it elsewhere.
    #[cold]
    pub(super) fn refuse_ending(&self, stream: StreamId, why: &'static str) {
        self.refuse_as(Code::Unavailable, stream, why);
    }

    /// Answers a call as not executed because of a limit of the server: the client may send it elsewhere.
    #[cold]
    pub(super) fn refuse_limited(&self, stream: StreamId, why: &'static str) {
        self.refuse_as(Code::ResourceExhausted, stream, why);
    }

    /// Answers a call as not executed. Only this function says so; what handlers and interceptors return
    /// never does.
    #[cold]
    fn refuse_as(&self, code: Code, stream: StreamId, why: &'static str) {
        self.core().share().count_refused();
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        writer.refused();
        writer.status_message(why);
        self.respond(stream, Reply { status: code as u8, meta: &meta, message: None });
        self.streams().finish(stream, Err(Status::new(code, why)));
    }
}
