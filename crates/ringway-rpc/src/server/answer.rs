//! Answers on the wire.

use ringway_wire::native::{Body, MetaWriter, Reply, StreamId};

use bytes::Bytes;
use ringway_runtime::drop_contained;

use super::call_times::{Answered, given_up};
use super::connection::ServerConnection;
use super::machine::Machine;
use crate::call::context::Context;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};
use crate::connection::driver::MESSAGE;
use crate::limits;
use crate::service::Encoded;

/// A message as the machine is given it, which may drop it. Its memory may belong to code of a user, which
/// is not to run while the machine is borrowed: so whoever has the bytes drops them after that.
#[inline]
pub(super) fn lent(bytes: &Bytes) -> Body<'_> {
    match bytes.len() <= limits::REPLY_COPY_MAX {
        true => Body::Copy(bytes),
        false => Body::Shared(bytes.clone()),
    }
}

impl<M: Machine> ServerConnection<M> {
    /// Answers a call with what its handler returned: a message that was encoded into `scratch`,
    /// or one as it is, or none.
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
        let reply = Reply { status: Code::Ok as u8, meta: &meta, message: body };
        let status = self.respond(stream, reply);
        if let Encoded::Shared(bytes) = encoded {
            drop_contained(MESSAGE, bytes);
        }
        match status {
            Some(0) => Answered { code: Code::Ok, bytes },
            Some(instead) => Answered::none(Code::from_wire(instead)),
            None => self.unheard(stream),
        }
    }

    /// Sends initial metadata for which there was no message of a stream.
    #[cold]
    fn send_initial(&self, stream: StreamId, context: &Context) {
        let mut meta = Vec::new();
        context.take_initial().write(&mut MetaWriter::new(&mut meta));
        let _ended_already = self.machine().send_initial(stream, &meta);
    }

    /// What a handler has said to be sent with the first message of its stream.
    #[cold]
    pub(super) fn initial_meta(&self, stream: StreamId) -> Vec<u8> {
        // A handler that has not waited yet is no task yet, but the current call.
        let waiting = self.calls.borrow_mut().context(stream);
        let mut meta = Vec::new();
        if let Some(context) = waiting.or_else(Context::current) {
            context.take_initial().write(&mut MetaWriter::new(&mut meta));
        }
        meta
    }

    /// Answers a call with a failure that its handler returned.
    #[cold]
    fn answer_failure(&self, stream: StreamId, status: &Status, trailers: &Metadata) -> Answered {
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        status.write(&mut writer);
        trailers.write(&mut writer);
        let reply = Reply { status: status.code() as u8, meta: &meta, message: None };
        match self.respond(stream, reply) {
            Some(_) => Answered::none(status.code()),
            None => self.unheard(stream),
        }
    }

    /// How a call counts that had ended before its answer.
    #[cold]
    fn unheard(&self, stream: StreamId) -> Answered {
        let failure = self.failure(stream);
        Answered::none(failure.map_or(Code::Cancelled, |status| status.code()))
    }

    /// How a call counts that is over while its handler is not. The machine may have ended it before
    /// the handler did, and has told the client so.
    #[cold]
    pub(super) fn given_up(&self, stream: StreamId, context: &Context) -> Answered {
        match self.failure(stream) {
            Some(failure) => Answered::none(failure.code()),
            None => given_up(context),
        }
    }

    /// Answers a call that never reached its handler, or was taken from it.
    #[cold]
    pub(crate) fn fail(&self, stream: StreamId, status: &Status) {
        self.answer_failure(stream, status, &Metadata::default());
        self.streams().finish(stream, Err(status.clone()));
    }

    /// Answers a call that has not been executed, since the server ends: the client may place it
    /// elsewhere.
    #[cold]
    pub(super) fn refuse_ending(&self, stream: StreamId, why: &'static str) {
        self.refuse_as(Code::Unavailable, stream, why);
    }

    /// Answers a call that has not been executed, for a limit of the server's: the client may place it
    /// elsewhere.
    #[cold]
    pub(super) fn refuse_limited(&self, stream: StreamId, why: &'static str) {
        self.refuse_as(Code::ResourceExhausted, stream, why);
    }

    /// It is here alone that a call is said not to have been executed: what
    /// handlers and interceptors return never says so.
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
