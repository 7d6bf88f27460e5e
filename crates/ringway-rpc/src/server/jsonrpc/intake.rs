//! From received texts to calls.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use ringway_wire::jsonrpc::{
    CallContext, ErrorNumber, Fault, Id, KeptId, Lines, Refusal, Request, decode_requests,
    put_error, put_refusal, put_result,
};
use ringway_wire::native::{MetaWriter, Piece, PlainRequest, RequestHead, ServerEvent};

use super::calls::{JsonCall, Subscription};
use super::read_request::ReadRequest;
use super::replies::put_status;
use super::state::JsonMachine;
use super::violation::JsonViolation;
use crate::call::codec;
use crate::call::json::mark_len;
use crate::call::method::Kind;
use crate::call::status::{Code, Status};
use crate::call::trace::TraceContext;
use crate::limits;

impl JsonMachine {
    /// Takes the next line if it is one request of the most common kind, without an allocation.
    #[inline]
    pub(super) fn plain<'i>(&mut self, input: &mut &'i [u8]) -> Option<PlainRequest<'i>> {
        let mut rest = *input;
        let line = self.lines.next_whole(&mut rest)?;
        if line.first() != Some(&b'{') {
            return None;
        }
        let request = decode_requests(line, 1).ok()?.next()?.ok()?;
        if request.context.is_some() || request.id.is_some_and(is_too_long) {
            return None;
        }
        let index = self.find(&request.method)?;
        let method = self.methods.get(index);
        if method.kind() != Kind::Unary {
            return None;
        }
        let Cow::Borrowed(message) = method.direct(request.params)? else { return None };
        *input = rest;
        let stream = self.calls.insert(JsonCall {
            id: request.id.map(KeptId::of),
            batch: None,
            method: index,
            subscription: Subscription::No,
        });
        Some(PlainRequest { stream, head: head_of(index), message: message.as_bytes() })
    }

    /// What has happened, or what the next text asks for.
    pub(super) fn next_event<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<ServerEvent<'i>>, JsonViolation> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told.event()));
            }
            if self.may_run()
                && let Some(begun) = self.begun.pop_front()
            {
                return Ok(Some(self.open(begun)));
            }
            if let Some(violation) = self.failed {
                return Err(violation);
            }
            if !self.take_line(input) {
                return Ok(None);
            }
        }
    }

    /// Takes a line out of what was received, if there is one.
    fn take_line(&mut self, input: &mut &[u8]) -> bool {
        if input.is_empty() {
            return false;
        }
        let none = Lines::new(self.config.text_max);
        let mut lines = std::mem::replace(&mut self.lines, none);
        let before = lines.part_len();
        let taken = match lines.next(input) {
            Ok(Some(line)) => {
                self.part_at = None;
                let _answered_or_not = self.take_text(line, &Bytes::new());
                true
            }
            Ok(None) => {
                let came = lines.part_len().saturating_sub(before);
                self.part_at = (lines.part_len() > 0).then(|| self.part_at_with(came));
                false
            }
            Err(_) => {
                self.refuse_text(&Refusal { fault: Fault::NotJson, id: Id::NULL });
                self.failed = Some(JsonViolation::LineTooLong { max: self.config.text_max });
                true
            }
        };
        self.lines = lines;
        taken
    }

    /// Takes the line that has come last, whose end is missing, since nothing follows.
    pub(super) fn take_rest(&mut self) {
        let none = Lines::new(self.config.text_max);
        let lines = std::mem::replace(&mut self.lines, none);
        self.part_at = None;
        if !lines.rest().is_empty() && self.failed.is_none() {
            let _answered_or_not = self.take_text(lines.rest(), &Bytes::new());
        }
    }

    /// When the line whose front has grown by `came` bytes counts as having stood still, at the latest.
    fn part_at_with(&self, came: usize) -> Duration {
        let time =
            limits::JSONRPC_BYTE_TIME.saturating_mul(u32::try_from(came).unwrap_or(u32::MAX));
        self.part_at.map_or(self.now, |at| at.saturating_add(time).min(self.now))
    }

    /// Takes in one text, with metadata that holds for all of its requests.
    /// Whether something answers it.
    pub(super) fn take_text(&mut self, text: &[u8], meta: &Bytes) -> bool {
        let text = &text[mark_len(text)..];
        let requests = match decode_requests(text, self.config.batch_max) {
            Ok(requests) => requests,
            Err(refusal) => {
                self.refuse_text(&refusal);
                return true;
            }
        };
        let mut is_answered = false;
        let batch = requests.is_batch().then(|| self.batches.begin(requests.len()));
        // A batch is taken as a whole, unless it becomes far more than its text is.
        let len_max = limits::JSONRPC_WAITING_BYTES + text.len();
        let has_room = self.begun.len() < self.config.calls_max
            && self.begun_len <= limits::JSONRPC_WAITING_BYTES;
        for request in requests {
            let has_room = has_room && self.begun_len <= len_max;
            let request = match request {
                Ok(request) if request.id.is_some_and(is_too_long) => {
                    Err(Refusal { fault: Fault::Id, id: Id::NULL })
                }
                request => request,
            };
            is_answered |= request.as_ref().map_or(true, |request| request.id.is_some());
            match request {
                Ok(request) if has_room => self.take_request(&request, batch, meta),
                Ok(request) => self.refuse(request.id, batch, Code::ResourceExhausted, FULL),
                Err(refusal) => {
                    self.unserved.malformed += 1;
                    self.answer(batch, Some(&mut |out| put_refusal(&refusal, out)));
                }
            }
        }
        is_answered
    }

    fn refuse_text(&mut self, refusal: &Refusal<'_>) {
        self.unserved.malformed += 1;
        self.answer(None, Some(&mut |out| put_refusal(refusal, out)));
    }

    fn take_request(&mut self, request: &Request<'_>, batch: Option<u32>, meta: &Bytes) {
        if let Some(drain) = self.drain {
            return self.refuse(request.id, batch, Code::Unavailable, drain.refusal());
        }
        match (&*request.method, request.id) {
            ("rpc.ping", id) => self.answer_own(id, batch, "true"),
            ("rpc.unsubscribe", id) => {
                let ended = self.unsubscribe(request.params);
                self.answer_own(id, batch, if ended { "true" } else { "false" });
            }
            _ => self.begin(request, batch, meta),
        }
    }

    fn begin(&mut self, request: &Request<'_>, batch: Option<u32>, meta: &Bytes) {
        let method = self.find(&request.method);
        let message = match method.map(|index| self.prepare(index, request, batch)) {
            None => Bytes::new(),
            Some(Ok(message)) => message,
            Some(Err(status)) => {
                self.unserved.malformed += 1;
                return self.answer_status(request.id, batch, &status);
            }
        };
        let says_more = request.context.is_some() || method.is_none();
        let meta = match says_more {
            true => own_meta(meta, request, method.is_none()),
            false => Bytes::clone(meta),
        };
        let id_len = request.id.map_or(0, |id| id.as_str().len());
        let reply_len = method.map_or(0, |index| self.methods.known_reply_len(index));
        let len = id_len + message.len() + if says_more { meta.len() } else { 0 } + reply_len;
        let is_subscription =
            method.is_some_and(|index| self.methods.get(index).kind() != Kind::Unary);
        let id = request.id.map(KeptId::of);
        self.begun_len += len;
        self.begun.push_back(ReadRequest {
            id,
            batch,
            method,
            is_subscription,
            meta,
            message,
            len,
        });
    }

    /// The message of a call.
    ///
    /// # Errors
    /// Why the method cannot be called so.
    fn prepare(
        &self,
        index: u32,
        request: &Request<'_>,
        batch: Option<u32>,
    ) -> Result<Bytes, Status> {
        let method = self.methods.get(index);
        let takes_none = |what| Status::unimplemented(format!("{} {what}", method.name()));
        match method.kind() {
            Kind::ClientStream | Kind::Bidi => {
                return Err(takes_none("takes a stream, which JSON-RPC cannot carry"));
            }
            Kind::ServerStream if batch.is_some() => {
                return Err(takes_none("is a subscription, which is not part of a batch"));
            }
            Kind::ServerStream if request.id.is_none() => {
                return Err(takes_none("is a subscription, which has an id"));
            }
            Kind::ServerStream if !self.has_subscriptions => {
                return Err(takes_none("is a subscription, which plain HTTP cannot carry"));
            }
            Kind::ServerStream | Kind::Unary => {}
        }
        method.message(request.params)
    }

    fn open<'i>(&mut self, begun: ReadRequest) -> ServerEvent<'i> {
        let ReadRequest { id, batch, method, is_subscription, meta, message, len } = begun;
        self.begun_len -= len;
        let subscription = if is_subscription { Subscription::Asked } else { Subscription::No };
        let index = method.unwrap_or(0);
        let stream = self.calls.insert(JsonCall { id, batch, method: index, subscription });
        if is_subscription {
            self.asked.push(stream);
        }
        let head = match method {
            Some(index) => head_of(index),
            None => RequestHead { codec: codec::JSON, ..RequestHead::default() },
        };
        let (meta, message) = (Piece::Owned(meta), Some(Piece::Owned(message)));
        ServerEvent::Request { stream, head, meta, message, end: true }
    }

    /// The method of this name.
    #[inline]
    pub(super) fn find(&mut self, name: &str) -> Option<u32> {
        if self.latest.0 != name {
            self.latest.1 = self.methods.find(name);
            self.latest.0.clear();
            if name.len() <= limits::JSONRPC_NAME_KEPT {
                self.latest.0.push_str(name);
            } else {
                return self.latest.1.take();
            }
        }
        self.latest.1
    }
}

/// Answers that need no call.
impl JsonMachine {
    fn answer_own(&mut self, id: Option<Id<'_>>, batch: Option<u32>, result: &str) {
        match id {
            Some(id) => self.answer(batch, Some(&mut |out| put_result(result, id, out))),
            None => self.answer(batch, None),
        }
    }

    fn answer_status(&mut self, id: Option<Id<'_>>, batch: Option<u32>, status: &Status) {
        match id {
            Some(id) => self.answer(batch, Some(&mut |out| put_status(status, id, out))),
            None => self.answer(batch, None),
        }
    }

    /// Answers a request as not executed.
    pub(super) fn refuse(
        &mut self,
        id: Option<Id<'_>>,
        batch: Option<u32>,
        code: Code,
        text: &str,
    ) {
        self.unserved.refused += 1;
        let code = ErrorNumber::of_status(code.number());
        let data = r#"{"ringway":{"executed":false}}"#;
        match id {
            Some(id) => {
                self.answer(batch, Some(&mut |out| put_error(code, text, Some(data), id, out)));
            }
            None => self.answer(batch, None),
        }
    }
}

const FULL: &str = "as many calls wait on the connection as may (in_flight_per_connection_max)";

#[inline]
fn head_of(index: u32) -> RequestHead {
    RequestHead { method: index + 1, codec: codec::JSON, ..RequestHead::default() }
}

#[inline]
fn is_too_long(id: Id<'_>) -> bool {
    id.as_str().len() > limits::JSONRPC_ID_BYTES_MAX
}

/// The metadata of a request that says more than its text's: of its call, and of a method that nobody knows, its name.
fn own_meta(of_text: &[u8], request: &Request<'_>, is_unknown: bool) -> Bytes {
    let mut meta = of_text.to_vec();
    if let Some(context) = &request.context {
        write_context(context, &mut meta);
    }
    if is_unknown {
        _ = MetaWriter::new(&mut meta).method(&request.method);
    }
    meta.into()
}

fn write_context(context: &CallContext<'_>, meta: &mut Vec<u8>) {
    let mut writer = MetaWriter::new(meta);
    if let Some(timeout) = context.timeout {
        let timeout = timeout.as_micros();
        writer.timeout_us(u64::try_from(timeout).unwrap_or(u64::MAX));
    }
    let trace = context.traceparent.as_deref().and_then(TraceContext::parse);
    if let Some(trace) = trace {
        writer.traceparent(&trace.to_bytes());
    }
}
