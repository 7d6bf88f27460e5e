//! From outcomes of calls to texts.

use std::borrow::Cow;

use bytes::Bytes;
use ringway_wire::jsonrpc::{ErrorNumber, Id, close, is_json, open_result, put_error, put_result};
use ringway_wire::native::{Body, MetaReader, MetaWriter, Reply, StreamId, Tag};
use serde_json::{Map, Value};

use super::batches::Write;
use super::calls::{JsonCall, Subscription};
use super::state::JsonMachine;
use crate::call::json;
use crate::call::status::{Code, JSON_RPC_CODE, Status};
use crate::limits;

impl JsonMachine {
    /// Answers a call, and says with which status.
    #[inline]
    pub(super) fn answer_call(&mut self, stream: StreamId, reply: Reply<'_>) -> Option<u8> {
        let call = self.calls.remove(stream)?;
        if call.subscription != Subscription::No {
            return Some(self.end_subscription(&call, stream, &reply));
        }
        let Some(id) = call.id() else {
            self.answer(call.batch, None);
            return Some(reply.status);
        };
        if reply.status == Code::Ok as u8
            && call.batch.is_none()
            && self.methods.get(call.method).writes_json()
            && let Some(Body::Copy(json)) = reply.message
            && let Ok(json) = str::from_utf8(json)
        {
            put_result(json, id, self.output.target());
            self.output.end_text();
            return Some(reply.status);
        }
        Some(self.answer_rare(&call, id, reply))
    }

    fn answer_rare(&mut self, call: &JsonCall, id: Id<'_>, reply: Reply<'_>) -> u8 {
        let Reply { status, meta, message } = reply;
        if status != Code::Ok as u8 {
            self.answer(call.batch, Some(&mut |out| put_failure(status, meta, id, out)));
            return status;
        }
        match self.result(call.method, message) {
            Ok(json) => {
                self.answer_result(call.batch, id, json);
                status
            }
            Err(status) => {
                self.answer(call.batch, Some(&mut |out| put_status(&status, id, out)));
                status.code() as u8
            }
        }
    }

    /// A handler's message as JSON text.
    pub(super) fn result(&self, method: u32, message: Option<Body<'_>>) -> Result<Bytes, Status> {
        let message = match message {
            None => Bytes::from_static(b"null"),
            Some(Body::Copy(bytes)) => Bytes::copy_from_slice(bytes),
            Some(Body::Shared(bytes)) => bytes,
        };
        let json = self.methods.get(method).reply(message)?;
        match str::from_utf8(&json) {
            Ok(_) => Ok(json),
            Err(_) => Err(Status::internal("the reply is no text")),
        }
    }

    fn answer_result(&mut self, batch: Option<u32>, id: Id<'_>, json: Bytes) {
        let is_long = json.len() > limits::REPLY_COPY_MAX;
        if batch.is_none() && is_long && memchr_free(&json) {
            open_result(self.output.target());
            self.output.put_shared(json);
            close(id, self.output.target());
            return self.output.end_text();
        }
        let text = str::from_utf8(&json).expect("it was checked");
        self.answer(batch, Some(&mut |out| put_result(text, id, out)));
        self.discarded.push(json); // its memory may belong to code of a user
    }

    /// Puts the answer to one message of a text where it belongs. `None` answers nothing.
    pub(super) fn answer(&mut self, batch: Option<u32>, write: Option<Write<'_>>) {
        let Some(batch) = batch else {
            if let Some(write) = write {
                write(self.output.target());
                self.output.end_text();
            }
            return;
        };
        if let Some(text) = self.batches.reply(batch, write).filter(|text| !text.is_empty()) {
            self.output.target().extend_from_slice(&text);
            self.output.end_text();
        }
    }
}

/// Whether JSON is on one line already.
fn memchr_free(json: &[u8]) -> bool {
    !json.contains(&b'\n')
}

/// Appends the answer to a call that failed with this status.
pub(super) fn put_status(status: &Status, id: Id<'_>, out: &mut Vec<u8>) {
    let mut meta = Vec::new();
    status.write(&mut MetaWriter::new(&mut meta));
    put_failure(status.code() as u8, &meta, id, out);
}

/// Appends the answer to a call that failed.
#[cold]
fn put_failure(status: u8, meta: &[u8], id: Id<'_>, out: &mut Vec<u8>) {
    let Failure { code, message, data } = Failure::read(status, meta);
    put_error(code, &message, data.as_deref(), id, out);
}

/// The error object of a failed call.
pub(super) struct Failure<'a> {
    pub(super) code: ErrorNumber,
    pub(super) message: Cow<'a, str>,
    /// The status' details, if those are JSON; otherwise an object with all that the status has beside its text.
    pub(super) data: Option<String>,
}

/// Whether a code stands for a status, and for another one than this.
fn means_another(code: ErrorNumber, status: u8) -> bool {
    let meant = code.status();
    meant != status && ErrorNumber::of_status(meant) == code
}

impl<'a> Failure<'a> {
    pub(super) fn read(status: u8, meta: &'a [u8]) -> Self {
        let mut code = ErrorNumber::of_status(status);
        let (mut message, mut details) = (Cow::Borrowed(code.text()), None);
        let (mut others, mut metadata) = (Map::new(), Map::new());
        for (tag, value) in MetaReader::new(meta).map_while(Result::ok) {
            match tag {
                Tag::StatusMessage => message = String::from_utf8_lossy(value),
                Tag::StatusDetails => details = Some(value),
                Tag::Refused => _ = others.insert("executed".into(), Value::Bool(false)),
                Tag::Pushback => {
                    let wait = MetaReader::pushback_ms(value).unwrap_or_default();
                    others.insert("pushback_ms".into(), wait.into());
                }
                Tag::Entry => {
                    if let Ok((key, value)) = MetaReader::entry(value) {
                        if let Some(own) = code_of(key, value) {
                            code = own;
                            continue;
                        }
                        let (key, value) =
                            (String::from_utf8_lossy(key), text_of(&key_of(key), value));
                        metadata.insert(key.into_owned(), value);
                    }
                }
                _ => {}
            }
        }
        if means_another(code, status) {
            others.insert("status".into(), status.into());
        }
        let is_plain = others.is_empty() && metadata.is_empty();
        let data = match details {
            None if is_plain => None,
            Some(details) if is_plain && is_json(details) => {
                String::from_utf8(details.to_vec()).ok()
            }
            details => {
                if let Some(details) = details {
                    others.insert("details".into(), base64(details));
                }
                if !metadata.is_empty() {
                    others.insert("metadata".into(), Value::Object(metadata));
                }
                let mut data = Map::new();
                data.insert("ringway".into(), Value::Object(others));
                Some(Value::Object(data).to_string())
            }
        };
        Self { code, message, data }
    }
}

/// The code that a handler has set.
fn code_of(key: &[u8], value: &[u8]) -> Option<ErrorNumber> {
    let is_code = key == JSON_RPC_CODE.as_bytes();
    is_code.then(|| str::from_utf8(value).ok()?.parse().ok().map(ErrorNumber)).flatten()
}

fn key_of(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// The value of metadata: a string, in base64 where it is bytes.
fn text_of(key: &str, value: &[u8]) -> Value {
    match key.ends_with("-bin") {
        true => base64(value),
        false => Value::String(String::from_utf8_lossy(value).into_owned()),
    }
}

fn base64(bytes: &[u8]) -> Value {
    Value::String(json::base64(bytes))
}
