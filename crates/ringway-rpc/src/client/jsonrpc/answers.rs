//! What the answers to POSTs mean for their calls.

use bytes::Bytes;
use ringway_wire::native::FailedBy;

use super::carrier::TextCarrier;
use super::failure::CallFailure;
use super::post::{AnswerEnd, AwaitedAnswer, PostAnswer};
use super::slots::AwaitedCall;
use super::state::{Happened, JsonClient};
use super::violation::JsonServerViolation;
use crate::call::status::Code;

impl JsonClient {
    /// Handles the answer to the request that is under way.
    pub(super) fn take_answer(&mut self, answer: &PostAnswer<'_>) {
        let TextCarrier::Post(post) = &mut self.carrier else { return };
        let Some(waits) = post.waits.take() else {
            self.failed = Some(JsonServerViolation::Http("it answers no request".into()));
            return;
        };
        post.learn(answer, self.now);
        self.is_ours |= answer.is_ours;
        if answer.end == AnswerEnd::Closes {
            self.leave("it closes the connection behind its answer");
        }
        // Any answer to a ping will do.
        let AwaitedAnswer::Call(stream) = waits else { return };
        let is_success = (200..300).contains(&answer.status);
        if !answer.content.trim_ascii().is_empty() {
            self.take_text(&answer.content);
        }
        let unread = self.failed.take(); // which concerns no other call
        match self.slots.get(stream) {
            Some(AwaitedCall::Notified) if is_success => self.end(stream, Ok(Some(Bytes::new()))),
            Some(_) => self.end(stream, Err(failure_of(answer.status, unread.as_ref()))),
            None => {}
        }
    }

    /// The connection has ended, which may make an answer whole.
    pub(in crate::client) fn end_input(&mut self) {
        if let TextCarrier::Post(post) = &mut self.carrier
            && let Some(answer) = post.end()
        {
            self.take_answer(&answer);
        }
    }

    /// Takes no more calls, and ends with those under way.
    pub(super) fn leave(&mut self, why: &'static str) {
        if let TextCarrier::Post(post) = &mut self.carrier
            && !post.is_closing
        {
            post.is_closing = true;
            self.happened.push_back(Happened::Leaving(why));
        }
    }
}

/// The failure of a call whose answer is a status of HTTP and no reply, or one that cannot be read.
fn failure_of(status: u16, unread: Option<&JsonServerViolation>) -> CallFailure {
    let code = match status {
        200..=299 => Code::Internal,
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 | 405 | 415 => Code::Unimplemented,
        413 => Code::ResourceExhausted,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    let text = match (status, unread) {
        (200..=299, None) => "the answer has no reply to the call".to_owned(),
        (200..=299, Some(why)) => format!("the answer has no reply to the call: {why}"),
        _ => format!("the server answered with HTTP status {status}"),
    };
    match status {
        200..=299 => CallFailure::here(code, text),
        _ => CallFailure::instead(code, FailedBy::Server, text),
    }
}
