//! What the answers to POSTs mean for their calls.

use bytes::Bytes;
use ringway_wire::jsonrpc::decode_responses;

use super::carrier::TextCarrier;
use super::failure::CallFailure;
use super::post::{AwaitedAnswer, PostAnswer};
use super::slots::AwaitedCall;
use super::state::{Happened, JsonClient};
use super::violation::JsonServerViolation;
use crate::call::status::Code;
use crate::limits;

impl JsonClient {
    /// Handles the answer to the request that is under way.
    pub(super) fn take_answer(&mut self, answer: &PostAnswer<'_>) {
        let TextCarrier::Post(post) = &mut self.carrier else { return };
        let Some(waits) = post.waits.take() else {
            self.failed = Some(JsonServerViolation::Http("it answers no request".into()));
            return;
        };
        if answer.closes {
            self.leave();
        }
        let is_success = (200..300).contains(&answer.status);
        let is_read = !answer.content.trim_ascii().is_empty()
            && (is_success || decode_responses(&answer.content, limits::JSONRPC_BATCH_MAX).is_ok());
        if is_read {
            self.take_text(&answer.content);
        }
        match waits {
            AwaitedAnswer::Ping if !is_read => {
                let why = format!("rpc.ping was answered with status {}", answer.status);
                self.failed = Some(JsonServerViolation::Http(why));
            }
            AwaitedAnswer::Ping => {}
            AwaitedAnswer::Call(stream) => match self.slots.get(stream) {
                Some(AwaitedCall::Notified) if is_success => {
                    self.end(stream, Ok(Some(Bytes::new())))
                }
                Some(_) => self.end(stream, Err(failure_of(answer.status))),
                None => {}
            },
        }
    }

    /// Takes no more calls, and ends with those under way.
    pub(super) fn leave(&mut self) {
        if let TextCarrier::Post(post) = &mut self.carrier
            && !post.is_closing
        {
            post.is_closing = true;
            self.happened.push_back(Happened::Leaving);
        }
    }
}

/// The failure of a call whose answer is a status of HTTP and no reply.
fn failure_of(status: u16) -> CallFailure {
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
    let text = match status {
        200..=299 => "the answer has no reply to the call".to_owned(),
        _ => format!("the server answered with HTTP status {status}"),
    };
    CallFailure::here(code, &text)
}
