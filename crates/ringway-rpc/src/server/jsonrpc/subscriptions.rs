//! Streams of replies: subscriptions, as a convention has them that servers of JSON-RPC share.
//!
//! ```text
//! ─► {"method":"Ticks/Watch", "params":[…], "id":1}
//! ◄─ {"result":524288, "id":1}                                                    the subscription's id
//! ◄─ {"method":"ticks.v1.Ticks/Watch", "params":{"subscription":524288,"result":…}}     any number
//! ◄─ {"method":"ticks.v1.Ticks/Watch", "params":{"subscription":524288,"end":true}}     or "error":{…}
//! ─► {"method":"rpc.unsubscribe", "params":[524288], "id":2}                      stops it: true, or false
//! ```

use ringway_wire::jsonrpc::{
    NumberedId, Params, close_notification, elements, members, open_request, put_result,
    put_subscription,
};
use ringway_wire::native::{Body, Gone, Reply, StreamId};

use super::calls::{JsonCall, Subscription};
use super::replies::Failure;
use super::state::JsonMachine;
use super::told::Told;
use crate::call::status::{Code, Status};
use crate::limits;

impl JsonMachine {
    /// Answers the subscriptions whose handlers have not refused them.
    #[inline]
    pub(super) fn confirm_asked(&mut self) {
        if !self.asked.is_empty() {
            for stream in std::mem::take(&mut self.asked) {
                self.confirm(stream);
            }
        }
    }

    /// Answers a subscription with its id, once.
    fn confirm(&mut self, stream: StreamId) -> Option<u64> {
        let call = self.calls.get(stream)?;
        match call.subscription {
            Subscription::No => return None,
            Subscription::Told(id) => return Some(id),
            Subscription::Asked => {}
        }
        // The slot is in it, so that it is found without a search.
        self.subscriptions += 1;
        let number = self.subscriptions * u64::from(StreamId::SLOTS) + u64::from(stream.slot());
        call.subscription = Subscription::Told(number);
        let id = call.id().expect("a subscription has an id");
        put_result(NumberedId::new(number).id().as_str(), id, self.output.target());
        self.output.end_text();
        Some(number)
    }

    /// Sends a message of a subscription; whether there is room for more.
    ///
    /// # Errors
    /// When it is over.
    pub(super) fn notify_subscriber(
        &mut self,
        stream: StreamId,
        message: Body<'_>,
    ) -> Result<bool, Gone> {
        let id = self.confirm(stream).ok_or(Gone)?;
        let method = self.calls.get(stream).ok_or(Gone)?.method;
        let name = self.methods.get(method).name();
        let id = NumberedId::new(id);
        if self.methods.get(method).writes_json()
            && let Body::Copy(json) = &message
            && let Ok(json) = str::from_utf8(json)
        {
            put_subscription(name, id.id(), json, self.output.target());
        } else {
            let json = match self.result(method, Some(message)) {
                Ok(json) => json,
                Err(status) => return Err(self.fail_subscription(stream, &status)),
            };
            let text = str::from_utf8(&json).expect("it was checked");
            put_subscription(name, id.id(), text, self.output.target());
            self.discarded.push(json);
        }
        self.output.end_text();
        Ok(self.output.len() < limits::JSONRPC_SUBSCRIPTION_ROOM)
    }

    #[cold]
    fn fail_subscription(&mut self, stream: StreamId, status: &Status) -> Gone {
        let mut meta = Vec::new();
        status.write(&mut ringway_wire::native::MetaWriter::new(&mut meta));
        let code = status.code() as u8;
        self.answer_call(stream, Reply { status: code, meta: &meta, message: None });
        self.told.push_back(Told::Failed(stream, code));
        Gone
    }

    /// Says that a subscription is over, whose call was taken out.
    pub(super) fn end_subscription(
        &mut self,
        call: &JsonCall,
        stream: StreamId,
        reply: &Reply<'_>,
    ) -> u8 {
        let (status, id) = (reply.status, call.id().expect("a subscription has an id"));
        self.asked.retain(|asked| *asked != stream);
        let failure = (status != Code::Ok as u8).then(|| Failure::read(status, reply.meta));
        let number = match (call.subscription, &failure) {
            (Subscription::Told(number), _) => number,
            (_, Some(Failure { code, message, data })) => {
                let out = self.output.target();
                ringway_wire::jsonrpc::put_error(*code, message, data.as_deref(), id, out);
                self.output.end_text();
                return status;
            }
            // It was over before anybody heard of it.
            (_, None) => {
                self.subscriptions += 1;
                let number =
                    self.subscriptions * u64::from(StreamId::SLOTS) + u64::from(stream.slot());
                put_result(NumberedId::new(number).id().as_str(), id, self.output.target());
                self.output.end_text();
                number
            }
        };
        let name = self.methods.get(call.method).name();
        put_end(name, number, failure.as_ref(), self.output.target());
        self.output.end_text();
        status
    }

    /// Ends a subscription because its client wants it. False if there is none with this id.
    pub(super) fn unsubscribe(&mut self, params: Params<'_>) -> bool {
        let id = match params {
            Params::Positional(array) => elements(array).next(),
            Params::Named(object) => {
                members(object).find_map(|(name, value)| (name == "subscription").then_some(value))
            }
            Params::Absent => None,
        };
        let Some(id) = id.and_then(|id| id.parse::<u64>().ok()) else { return false };
        let slot = (id % u64::from(StreamId::SLOTS)) as u32;
        let Some(stream) = self.calls.subscribed(slot, id) else { return false };
        self.calls.remove(stream);
        self.told.push_back(Told::Cancelled(stream));
        true
    }

    /// Lets subscriptions go on that waited for room.
    #[inline]
    pub(super) fn tell_writable(&mut self) {
        if self.is_awaited.get() && self.output.len() <= limits::JSONRPC_SUBSCRIPTION_ROOM / 2 {
            self.is_awaited.set(false);
            self.told.extend(self.calls.subscriptions().map(Told::Writable));
        }
    }
}

/// Appends the last notification of a subscription.
fn put_end(method: &str, id: u64, failure: Option<&Failure<'_>>, out: &mut Vec<u8>) {
    open_request(method, out);
    out.extend_from_slice(format!("{{\"subscription\":{id},").as_bytes());
    match failure {
        None => out.extend_from_slice(b"\"end\":true}"),
        Some(Failure { code, message, data }) => {
            let message = serde_json::Value::from(&**message);
            let data = data.as_ref().map(|data| format!(",\"data\":{data}")).unwrap_or_default();
            let error = format!("{{\"code\":{},\"message\":{message}{data}}}", code.0);
            out.extend_from_slice(format!("\"error\":{}}}", error.replace('\n', " ")).as_bytes());
        }
    }
    close_notification(out);
}
