//! How a client handles the answers of a server.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::call_names::ReplyHead;
use super::calls::EarlyEnd;
use super::client::GrpcClient;
use super::compress::decompress;
use super::compression::ClientCompression;
use super::inflate_error::InflateError;
use super::message::{MessageError, PREFIX_LEN};
use super::meta_fields::put_meta;
use super::names::Compression;
use super::status::{code, status_of_reset};
use crate::http2::{ErrorCode, Event, Key, StreamHandle, Violation};
use crate::limits::{GRPC_INFLATED_MAX, NATIVE_ASSEMBLY_MAX};
use crate::native::{ClientEvent, FailedBy, GoAwayCode, MetaWriter, Piece, StreamId};

/// The input before an event, and the rest after it.
pub(super) struct Input<'a, 'i> {
    pub(super) before: &'i [u8],
    pub(super) rest: &'a mut &'i [u8],
}

impl GrpcClient {
    /// Decodes frames from the front of `input` until one yields an event.
    ///
    /// `None` means that the input is used up; a frame cut at its end is buffered. Events caused by
    /// other calls ([`has_events`](Self::has_events)) come first, even with an empty input.
    ///
    /// # Errors
    ///
    /// Fails when the server broke the protocol, and with the same error at every later call.
    /// [`transmit`](Self::transmit) still hands out the GOAWAY; close the connection after that.
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let before = *input;
            let Some(event) = self.http2.receive(input, now)? else { return Ok(None) };
            let input = Input { before, rest: input };
            if let Some(event) = self.on_event(event, input) {
                return Ok(Some(event));
            }
        }
    }

    /// Takes the next message of a stream off the front of `input` on a fast path for the messages
    /// of one DATA frame. Call it after [`receive`](Self::receive). `None` only means that the next
    /// input needs `receive`.
    #[inline]
    pub fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        if !self.pending.is_empty() {
            return None;
        }
        let (stream, content) = self.http2.plain_content(input)?;
        let (id, call) = self.calls.open(stream)?;
        let message = call.messages.plain(content)?;
        let len = PREFIX_LEN + message.len();
        call.note_message(len);
        self.http2.take_content(len, input);
        Some((id, message))
    }

    fn on_event<'i>(&mut self, event: Event<'i>, input: Input<'_, 'i>) -> Option<ClientEvent<'i>> {
        match event {
            Event::Head { stream, data, end } => self.on_head(stream, data, end, input),
            Event::Data { stream, data, end } => {
                let id = self.calls.of(stream)?;
                self.on_data(id, data, end, input)
            }
            Event::Trailers { stream } => {
                let id = self.calls.of(stream)?;
                let reply = ReplyHead::read_trailers(self.http2.fields().head());
                Some(self.end(id, reply))
            }
            Event::Reset { stream, code } => {
                let id = self.calls.of(stream)?;
                Some(self.on_reset(id, code))
            }
            Event::Failed { stream, code } => {
                let id = self.calls.of(stream)?;
                Some(self.on_failed(id, code))
            }
            Event::Writable { stream } => {
                let stream = self.calls.of(stream)?;
                Some(ClientEvent::Writable { stream })
            }
            Event::Capacity => Some(ClientEvent::Capacity),
            Event::Leaving { code, last, reason } => {
                let text = reason_of(code, &reason);
                self.left = Some(text.clone());
                Some(leaving(code, last, text))
            }
            Event::DrainOver | Event::Pong { .. } => None,
        }
    }

    fn on_head<'i>(
        &mut self,
        stream: StreamHandle,
        data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Option<ClientEvent<'i>> {
        let id = self.calls.of(stream)?;
        let fields = self.http2.fields();
        let reply = ReplyHead::read(fields.head());
        if let Some(status) = reply.foreign {
            let http = fields.head().value(Key::STATUS).unwrap_or_default();
            let text = format!("the server did not answer with gRPC; the HTTP status is {http}");
            return Some(self.fail_by(FailedBy::Server, id, status, text));
        }
        if end && data.is_empty() {
            return Some(self.end(id, reply));
        }
        if let Some(status) = reply.status.filter(|status| *status != code::OK) {
            return self.on_early_end(id, status, reply, data, end, input);
        }
        if fields.is_cut() {
            return Some(self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE));
        }
        let call = self.calls.get(id)?;
        (call.compression, call.has_head) = (reply.compression, true);
        let Some(meta) = self.meta_of_fields(None) else {
            return Some(self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE));
        };
        match (meta.is_empty(), end) {
            (true, _) if data.is_empty() => return None,
            (true, _) => return self.on_data(id, data, end, input),
            (false, true) => self.drain_content(id, data),
            (false, false) => {
                self.http2.put_back(stream, data.len(), false, input.before, input.rest);
            }
        }
        Some(ClientEvent::Initial { stream: id, meta })
    }

    /// Handles a head that contains the failure of the call, and has content or at least an empty DATA
    /// behind it, or a reset: some proxies make that of a response that is a head alone. The failure counts if no
    /// trailers follow.
    #[cold]
    fn on_early_end<'i>(
        &mut self,
        id: StreamId,
        status: u8,
        reply: ReplyHead,
        data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Option<ClientEvent<'i>> {
        let whole = self.meta_of_fields(reply.pushback_ms);
        let meta = whole.unwrap_or_else(|| Piece::Owned(Bytes::copy_from_slice(&self.scratch)));
        let meta = meta.into_bytes();
        let call = self.calls.get(id)?;
        (call.compression, call.has_head) = (reply.compression, true);
        call.early_end = Some(Box::new(EarlyEnd { status, meta }));
        if data.is_empty() && !end { None } else { self.on_data(id, data, end, input) }
    }

    /// Takes one message out of a call's content; the rest is put back into the input.
    fn on_data<'i>(
        &mut self,
        id: StreamId,
        mut data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Option<ClientEvent<'i>> {
        let stream = self.calls.stream(id)?;
        let event = self.next_message(id, &mut data);
        let goes_on = matches!(event, Some(ClientEvent::Message { .. }) | None);
        if end && goes_on {
            // The stream may have ended, so the rest cannot be put back.
            self.drain_content(id, data);
        } else if goes_on && !data.is_empty() {
            self.http2.put_back(stream, data.len(), false, input.before, input.rest);
        }
        event.or_else(|| self.pending.pop_front())
    }

    /// Takes one message off `data`; `None` if it is incomplete, and then all of `data` is taken.
    fn next_message<'i>(&mut self, id: StreamId, data: &mut Piece<'i>) -> Option<ClientEvent<'i>> {
        let len = data.len();
        let call = self.calls.get(id)?;
        let before = call.messages.incomplete_len();
        let next = call.messages.next(data);
        self.assembled = self.assembled - before + call.messages.incomplete_len();
        match next {
            Ok(Some(message)) if message.is_compressed => {
                let compression = call.compression;
                call.note_message(len - data.len());
                Some(self.compressed(id, &message.bytes, compression))
            }
            Ok(Some(message)) => {
                call.note_message(len - data.len());
                Some(ClientEvent::Message { stream: id, message: message.bytes })
            }
            Ok(None) => {
                let (stream, owed) = (call.stream, call.note_part(len));
                self.http2.taken(stream, owed);
                let most = NATIVE_ASSEMBLY_MAX.max(self.config.max_message as usize);
                let text = "the client buffers too many bytes of incomplete messages";
                (self.assembled > most).then(|| self.fail(id, code::RESOURCE_EXHAUSTED, text))
            }
            Err(error) => Some(self.fail(id, status_of(error), error.to_string())),
        }
    }

    /// Queues the complete messages of a call that ended without trailers, and then its end.
    #[cold]
    fn drain_content(&mut self, id: StreamId, mut data: Piece<'_>) {
        while !data.is_empty()
            && let Some(event) = self.next_message(id, &mut data)
        {
            let is_end = matches!(event, ClientEvent::Failed { .. });
            self.pending.push_back(owned(event));
            if is_end {
                return;
            }
        }
        let ended = self.end(id, ReplyHead::NONE);
        self.pending.push_back(ended);
    }

    /// Decompresses a message, or ends the call if it may not be compressed so.
    #[cold]
    fn compressed(&mut self, id: StreamId, bytes: &[u8], by: Compression) -> ClientEvent<'static> {
        if by == Compression::Identity {
            let text = "a message is compressed, and grpc-encoding does not say how";
            return self.fail(id, code::INTERNAL, text);
        }
        if self.config.compression.is_none() || !ClientCompression::takes(by) {
            let text = "a message uses a compression that the client does not accept";
            return self.fail(id, code::INTERNAL, text);
        }
        // Few bytes may become many, for which the server needs no credit.
        if self.calls.inflated() > GRPC_INFLATED_MAX {
            let text = "too many bytes of decompressed messages are unread";
            return self.fail(id, code::RESOURCE_EXHAUSTED, text);
        }
        match decompress(by, bytes, self.config.max_message as usize) {
            Ok(message) => {
                self.calls.note_inflated(id, message.len());
                ClientEvent::Message { stream: id, message: Piece::Owned(message) }
            }
            Err(error) => self.fail(id, status_of_inflate(error), error.to_string()),
        }
    }

    /// Ends a call whose response ended with a head or trailers.
    fn end(&mut self, id: StreamId, reply: ReplyHead) -> ClientEvent<'static> {
        let Some(status) = reply.status else {
            return self.end_without_status(id);
        };
        let is_whole = self.calls.get(id).is_none_or(|call| call.messages.finish().is_ok());
        if status == code::OK && !is_whole {
            return self.fail(id, code::INTERNAL, MessageError::Cut.to_string());
        }
        if status == code::OK && self.http2.fields().is_cut() {
            return self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE);
        }
        let meta = match self.meta_of_fields(reply.pushback_ms) {
            Some(meta) => meta,
            None if status == code::OK => {
                return self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE);
            }
            // Why the call has failed matters more.
            None => Piece::Owned(Bytes::copy_from_slice(&self.scratch)),
        };
        self.forget(id);
        ClientEvent::Response { stream: id, status, meta, message: None }
    }

    #[cold]
    fn end_without_status(&mut self, id: StreamId) -> ClientEvent<'static> {
        let early = self.calls.get(id).and_then(|call| call.early_end.take());
        let Some(EarlyEnd { status, meta }) = early.map(|early| *early) else {
            let text = "the server ended the call without a grpc-status";
            return self.fail_by(FailedBy::Server, id, code::UNKNOWN, text);
        };
        self.forget(id);
        ClientEvent::Response { stream: id, status, meta: Piece::Owned(meta), message: None }
    }

    /// Ends a call whose stream the server has reset.
    fn on_reset(&mut self, id: StreamId, error: ErrorCode) -> ClientEvent<'static> {
        if let Some(early) = self.calls.get(id).and_then(|call| call.early_end.take()) {
            let EarlyEnd { status, meta } = *early;
            let _reset_already = self.end_call(id);
            return ClientEvent::Response {
                stream: id,
                status,
                meta: Piece::Owned(meta),
                message: None,
            };
        }
        let is_refused = error == ErrorCode::REFUSED_STREAM;
        let text = match &self.left {
            Some(why) if is_refused && why.is_empty() => Cow::Borrowed(UNSEEN),
            Some(why) if is_refused => format!("{UNSEEN}: {why}").into(),
            _ => format!("the server reset the stream: {error}").into(),
        };
        let status = status_of_reset(error);
        // A server that has begun to reply has begun to execute the call, whatever it says later.
        let has_head = self.calls.get(id).is_some_and(|call| call.has_head);
        let _reset_already = self.end_call(id);
        if !is_refused || has_head {
            return ClientEvent::Failed { stream: id, status, by: FailedBy::Server, text };
        }
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).status_message(&text).refused();
        ClientEvent::Response { stream: id, status, meta: Piece::Owned(meta.into()), message: None }
    }

    /// Ends a call whose stream this end has reset, because of what the server did on it.
    #[cold]
    fn on_failed(&mut self, id: StreamId, error: ErrorCode) -> ClientEvent<'static> {
        match error {
            // The machine cancels a stream whose peer has accepted no data for too long.
            ErrorCode::CANCEL => {
                let text = "the server stopped accepting data on the stream";
                self.fail(id, code::UNAVAILABLE, text)
            }
            _ => {
                let text = "the server broke the HTTP/2 protocol on the stream";
                self.fail(id, code::INTERNAL, text)
            }
        }
    }

    /// Ends a call that the server is still running, with a status of the client's own.
    fn fail(
        &mut self,
        id: StreamId,
        status: u8,
        text: impl Into<Cow<'static, str>>,
    ) -> ClientEvent<'static> {
        self.fail_by(FailedBy::Client, id, status, text)
    }

    fn fail_by(
        &mut self,
        by: FailedBy,
        id: StreamId,
        status: u8,
        text: impl Into<Cow<'static, str>>,
    ) -> ClientEvent<'static> {
        self.forget(id);
        ClientEvent::Failed { stream: id, status, by, text: text.into() }
    }

    /// The metadata in the message that the machine reported last; `None` if there is too much, and
    /// then a part of it is in `scratch`.
    fn meta_of_fields(&mut self, pushback_ms: Option<i64>) -> Option<Piece<'static>> {
        if self.http2.fields().is_empty() && pushback_ms.is_none() {
            return Some(Piece::EMPTY);
        }
        self.scratch.clear();
        let is_whole = put_meta(self.http2.fields(), &mut self.scratch);
        if let Some(ms) = pushback_ms {
            MetaWriter::new(&mut self.scratch).pushback_ms(ms);
        }
        is_whole.then(|| Piece::Owned(Bytes::copy_from_slice(&self.scratch)))
    }
}

/// The status of a call whose message cannot be decompressed.
fn status_of_inflate(error: InflateError) -> u8 {
    match error {
        InflateError::TooLong => code::RESOURCE_EXHAUSTED,
        InflateError::Broken | InflateError::Unknown => code::INTERNAL,
    }
}

fn status_of(error: MessageError) -> u8 {
    match error {
        MessageError::TooLong { .. } => code::RESOURCE_EXHAUSTED,
        MessageError::WrongFlag(_) | MessageError::Cut => code::INTERNAL,
    }
}

/// Copies an event so that it outlives the input.
fn owned(event: ClientEvent<'_>) -> ClientEvent<'static> {
    match event {
        ClientEvent::Message { stream, message } => {
            ClientEvent::Message { stream, message: Piece::Owned(message.into_bytes()) }
        }
        ClientEvent::Failed { stream, status, by, text } => {
            ClientEvent::Failed { stream, status, by, text }
        }
        _ => unreachable!("content is messages, or it ends the call"),
    }
}

/// The reason of a GOAWAY as text: its code, if that is an error, and what the server says.
fn reason_of(error: ErrorCode, said: &[u8]) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    let said: String = String::from_utf8_lossy(said).chars().map(printable).collect();
    match (error, said.is_empty()) {
        (ErrorCode::NO_ERROR, _) => said,
        (_, true) => error.to_string(),
        (_, false) => format!("{error}: {said}"),
    }
}

/// Makes the event of a GOAWAY; HTTP/2 does not say how much time open calls have.
fn leaving(error: ErrorCode, last: u32, reason: String) -> ClientEvent<'static> {
    let code = match error {
        ErrorCode::NO_ERROR => GoAwayCode::NoError,
        ErrorCode::ENHANCE_YOUR_CALM => GoAwayCode::TooManyResets,
        ErrorCode::FLOW_CONTROL_ERROR => GoAwayCode::FlowControl,
        ErrorCode::INTERNAL_ERROR => GoAwayCode::Internal,
        _ => GoAwayCode::Protocol,
    };
    ClientEvent::Leaving {
        code: code.code(),
        drain_ms: u32::MAX,
        accepted: last.div_ceil(2),
        reason: Piece::Owned(reason.into()),
    }
}

const UNSEEN: &str = "the server takes no more calls, and has not seen this one";
const META_TOO_LARGE: &str = "metadata is longer than the client accepts";
