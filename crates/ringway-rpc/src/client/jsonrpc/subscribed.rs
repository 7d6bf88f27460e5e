//! Subscriptions: streams of replies that a server answers with their id, and then with notifications.

use bytes::Bytes;
use ringway_wire::jsonrpc::{
    ErrorNumber, ErrorObject, Params, Request, Subscribed, members, put_notification,
};
use ringway_wire::native::{Piece, StreamId};

use super::failure::CallFailure;
use super::slots::{AwaitedCall, Subscriber};
use super::state::{Happened, JsonClient};
use crate::call::status::Code;
use crate::limits;

impl JsonClient {
    /// Begins a subscription that the server has answered with its id.
    pub(super) fn subscribed(&mut self, stream: StreamId, id: &str) {
        if id.len() > limits::JSONRPC_ID_BYTES_MAX {
            let why = "the server has given the subscription an id that is too long";
            return self.end(stream, Err(CallFailure::here(Code::ResourceExhausted, why)));
        }
        let text_max = self.config.text_max;
        if !self.slots.subscribe(stream, Subscriber::new(id, text_max)) {
            return;
        }
        // A server that gives an id twice has ended what had it.
        if let Some(former) = self.subscriptions.insert(id.into(), stream) {
            let why = "the server has given the id of this subscription to another one";
            self.end(former, Err(CallFailure::here(Code::Internal, why)));
        }
    }

    /// Handles a notification.
    pub(super) fn notified(&mut self, notification: &Request<'_>) {
        let Some(Subscribed { id, result }) = Subscribed::of(notification) else {
            return self.ended(notification);
        };
        let Some(&stream) = self.subscriptions.get(id.as_str()) else { return };
        let Some(AwaitedCall::Subscribed(unread)) = self.slots.get(stream) else { return };
        if !unread.add(result.len()) {
            let why = "too many messages wait for their reader";
            self.unsubscribe(stream);
            return self.end(stream, Err(CallFailure::here(Code::ResourceExhausted, why)));
        }
        let message = Piece::Owned(Bytes::copy_from_slice(result.as_bytes()));
        self.happened.push_back(Happened::Message(stream, message));
    }

    /// Ends a subscription that the server has ended, perhaps with an error.
    fn ended(&mut self, notification: &Request<'_>) {
        let Params::Named(params) = notification.params else { return };
        let (mut id, mut error) = (None, None);
        for (name, value) in members(params) {
            match &*name {
                "subscription" => id = Some(value),
                "error" => error = Some(value),
                _ => {}
            }
        }
        let Some(stream) = id.and_then(|id| self.subscriptions.get(id).copied()) else { return };
        match error {
            None => self.end(stream, Ok(None)),
            Some(error) => self.end(stream, Err(failure_of(error, self.is_ours))),
        }
    }

    /// Tells the server that nobody reads a subscription any more.
    pub(super) fn unsubscribe(&mut self, stream: StreamId) {
        if let Some(AwaitedCall::Subscribed(unread)) = self.slots.get(stream) {
            let params = format!("[{}]", unread.id);
            self.put_text(|out| put_notification("rpc.unsubscribe", Some(&params), out));
        }
    }

    /// Notes that messages of a subscription have been read.
    pub(super) fn read(&mut self, stream: StreamId, messages: usize) {
        if let Some(AwaitedCall::Subscribed(unread)) = self.slots.get(stream) {
            unread.read(messages);
        }
    }
}

/// Reads the error that a subscription has ended with.
fn failure_of(error: &str, is_ours: bool) -> CallFailure {
    let (mut code, mut message, mut data) = (0, String::new(), None);
    for (name, value) in members(error) {
        match &*name {
            "code" => code = value.parse().unwrap_or_default(),
            "message" => message = serde_json::from_str(value).unwrap_or_default(),
            "data" => data = Some(value),
            _ => {}
        }
    }
    let error = ErrorObject { code: ErrorNumber(code), message: message.into(), data };
    CallFailure::of_error(&error, is_ours)
}
