//! What the texts of a server mean for their calls.

use bytes::Bytes;
use ringway_wire::jsonrpc::{ErrorObject, Fault, Id, Incoming, Response, decode_responses};
use ringway_wire::native::StreamId;

use super::failure::CallFailure;
use super::slots::AwaitedCall;
use super::state::{Happened, JsonClient, PING, PingAnswers};
use super::violation::JsonServerViolation;
use crate::call::status::Code;
use crate::limits;

impl JsonClient {
    pub(super) fn take_text(&mut self, text: &[u8]) {
        let all = match decode_responses(text, limits::JSONRPC_BATCH_MAX) {
            Ok(all) => all,
            Err(Fault::NotJson) => {
                self.failed = Some(JsonServerViolation::NotJson);
                return;
            }
            Err(fault) => {
                self.failed = Some(JsonServerViolation::NoMessage(fault.to_string()));
                return;
            }
        };
        if all.is_batch()
            && let Some(stream) = all.clone().find_map(|incoming| self.batch_of(incoming.ok()?))
        {
            let reply = [&[u8::from(self.is_ours)], text].concat();
            return self.end(stream, Ok(Some(reply.into())));
        }
        for incoming in all {
            match incoming {
                Ok(Incoming::Response(response)) => self.take_response(&response),
                Ok(Incoming::Request(request)) => self.notified(&request),
                Err(refusal) => self.take_wrong_message(refusal.id, refusal.fault),
            }
        }
    }

    /// The call of the batch that a response is part of.
    fn batch_of(&self, incoming: Incoming<'_>) -> Option<StreamId> {
        let Incoming::Response(response) = incoming else { return None };
        let id = response.id.text()?;
        let (batch, _) = id.strip_prefix('b')?.split_once('.')?;
        self.slots.find_batch(batch.parse().ok()?)
    }

    /// Ends the call that a message answers which cannot be read; the connection if nobody knows which one that is.
    fn take_wrong_message(&mut self, id: Id<'_>, fault: Fault) {
        let named = id.number().and_then(|number| self.slots.find(number)).map(|found| found.0);
        let is_object = fault != Fault::NotAnObject;
        // Another may be the answer to a ping, or to a call that was given up.
        if named.is_none() && is_object && (!id.is_null() || self.ping == PingAnswers::Awaited) {
            return self.pinged(id.number());
        }
        match named.or_else(|| self.slots.only_unanswered().filter(|_| is_object)) {
            Some(stream) => {
                let why = format!("the reply cannot be read: {fault}");
                self.end(stream, Err(CallFailure::here(Code::Internal, why)));
            }
            None => self.failed = Some(JsonServerViolation::NoMessage(fault.to_string())),
        }
    }

    /// Notes that a ping is answered, if it is.
    fn pinged(&mut self, id: Option<u64>) {
        if id == Some(PING) || self.ping == PingAnswers::Awaited {
            self.ping = PingAnswers::Named;
        }
    }

    fn take_response(&mut self, response: &Response<'_>) {
        let number = response.id.number();
        if number == Some(PING) {
            // One that drains refuses pings.
            self.is_ours |= response.outcome == Ok("true");
            return self.pinged(number);
        }
        if let (true, Err(error)) = (response.id.is_null(), &response.outcome) {
            return self.take_complaint(error);
        }
        // A call that was given up is answered all the same.
        let Some((stream, call)) = number.and_then(|number| self.slots.find(number)) else {
            return;
        };
        match (&response.outcome, call) {
            (Ok(id), AwaitedCall::Asked) => self.subscribed(stream, id),
            (Ok(id), AwaitedCall::GivenUp) => {
                self.subscribed(stream, id);
                self.unsubscribe(stream);
                self.forget(stream);
            }
            (Err(_), AwaitedCall::GivenUp) => self.forget(stream),
            (Ok(result), _) => {
                self.end(stream, Ok(Some(Bytes::copy_from_slice(result.as_bytes()))))
            }
            (Err(error), _) => {
                let failure = CallFailure::of_error(error, self.is_ours);
                if failure.is_refused && failure.code == Code::Unavailable {
                    self.happened.push_back(Happened::Leaving("it is shutting down"));
                }
                self.end(stream, Err(failure));
            }
        }
    }

    /// Handles an error that names no request: it is the answer of a ping that has none so far, or of the only call,
    /// or nobody knows whose.
    fn take_complaint(&mut self, error: &ErrorObject<'_>) {
        if let PingAnswers::Awaited | PingAnswers::Unnamed { is_awaited: true } = self.ping {
            self.ping = PingAnswers::Unnamed { is_awaited: false };
            return;
        }
        match self.slots.only_unanswered() {
            Some(stream) => self.end(stream, Err(CallFailure::of_error(error, self.is_ours))),
            None => {
                let said = error.message.chars().take(limits::FOREIGN_LINE_SHOWN).collect();
                self.failed = Some(JsonServerViolation::Unreadable(said));
            }
        }
    }
}
