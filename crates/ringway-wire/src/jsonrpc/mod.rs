//! JSON-RPC 2.0, by <https://www.jsonrpc.org/specification>: the messages, whatever carries them.
//!
//! | to | use |
//! |---|---|
//! | split a stream of bytes into messages | [`Lines`] |
//! | read what a client sends | [`decode_requests`], [`Refusal`] and [`put_refusal`] for what is none |
//! | read what a server sends | [`decode_responses`], [`Subscribed`] |
//! | take parameters apart | [`elements`], [`only_element`], [`members`] |
//! | keep an id until its answer is there | [`KeptId`] |
//! | write requests | [`put_request`], [`put_notification`], or in place with [`open_request`] |
//! | write answers | [`put_result`], [`put_error`], [`put_subscription`], or in place with [`open_result`] |
//! | write a batch | [`Replies`] around them |
//! | turn codes into statuses and back | [`ErrorNumber`] |
//!
//! What is read is borrowed, and checked to be JSON to its last byte: parameters, results and data can be
//! decoded later, or put into another message, as they are. That is stricter than JSON in one point, so that
//! each string fits a `str`: half of a surrogate pair is refused, with the id of its message. What the specification
//! leaves open:
//!
//! - Of members with one name the last counts. Names are compared without their escapes.
//! - `"params": null` is as if it were left out, and so is a byte order mark in front of a text.
//! - A member is nested at most a hundred levels deep, fewer than decoders of typed values take. A message
//!   with a deeper one is refused, with its id where that can be read.
//! - A message that is no request is answered though it has no id: it is no notification either.
//!
//! There is a scanner of our own because `serde_json` does not have these rules: with raw values it neither
//! bounds the nesting nor tells which part of a message is wrong, takes no member twice, and accepts halves of
//! surrogate pairs. It also takes a half to four fifths of the time: `ringway bench codec` compares the two.

mod batch;
mod code;
mod context;
mod digits;
mod encode;
mod fault;
pub(crate) mod fuzz;
mod id;
mod kept_id;
mod lines;
mod message;
mod parts;
mod request;
mod response;
mod scanner;
mod subscription;
mod target;
mod text;

pub use crate::limits::JSONRPC_BATCH_MAX_DEFAULT as BATCH_MAX_DEFAULT;
pub use batch::Replies;
pub use code::ErrorNumber;
pub use context::CallContext;
pub use encode::{
    close, close_notification, close_subscription, open_request, open_result, open_subscription,
    put_context, put_error, put_notification, put_refusal, put_request, put_result,
    put_subscription,
};
pub use fault::Fault;
pub use id::{Id, NumberedId};
pub use kept_id::KeptId;
pub use lines::Lines;
pub use parts::{elements, members, only_element};
pub use request::{Params, Refusal, Request, Requests, decode_requests};
pub use response::{ErrorObject, Incoming, Response, Responses, decode_responses};
pub use scanner::is_json;
pub use subscription::Subscribed;
pub use target::Target;
