//! How a client handles the answers of a server.

use std::time::Duration;

use bytes::Bytes;

use super::call_names::ReplyHead;
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
use crate::native::{ClientEvent, GoAwayCode, MetaWriter, Piece, StreamId};

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
                Some(match code {
                    // The machine cancels a stream whose peer has accepted no data for too long.
                    ErrorCode::CANCEL => self.fail(
                        id,
                        code::UNAVAILABLE,
                        "the server stopped accepting data on the stream",
                    ),
                    _ => self.fail(
                        id,
                        code::INTERNAL,
                        "the server broke the HTTP/2 protocol on the stream",
                    ),
                })
            }
            Event::Writable { stream } => {
                let stream = self.calls.of(stream)?;
                Some(ClientEvent::Writable { stream })
            }
            Event::Capacity => Some(ClientEvent::Capacity),
            Event::Leaving { code, last, reason } => Some(leaving(code, last, reason)),
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
            return Some(self.fail(id, status, &text));
        }
        if end && data.is_empty() {
            return Some(self.end(id, reply));
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
            Err(error) => Some(self.fail(id, status_of(error), &error.to_string())),
        }
    }

    /// Queues the complete messages of a call that ended without trailers, and then its end.
    #[cold]
    fn drain_content(&mut self, id: StreamId, mut data: Piece<'_>) {
        while !data.is_empty()
            && let Some(event) = self.next_message(id, &mut data)
        {
            let is_end = matches!(event, ClientEvent::Response { .. });
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
            return self.fail(id, code::UNIMPLEMENTED, text);
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
            Err(error) => self.fail(id, status_of_inflate(error), &error.to_string()),
        }
    }

    /// Ends a call whose response ended with a head or trailers.
    fn end(&mut self, id: StreamId, reply: ReplyHead) -> ClientEvent<'static> {
        let Some(status) = reply.status else {
            return self.fail(id, code::UNKNOWN, "the server ended the call without a grpc-status");
        };
        let is_whole = self.calls.get(id).is_none_or(|call| call.messages.finish().is_ok());
        if status == code::OK && !is_whole {
            return self.fail(id, code::INTERNAL, &MessageError::Cut.to_string());
        }
        if status == code::OK && self.http2.fields().is_cut() {
            return self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE);
        }
        let meta = match self.meta_of_fields(reply.pushback_ms) {
            Some(meta) => meta,
            None if status == code::OK => {
                return self.fail(id, code::RESOURCE_EXHAUSTED, META_TOO_LARGE);
            }
            // // Why the call has failed matters more.
            None => Piece::Owned(Bytes::copy_from_slice(&self.scratch)),
        };
        self.forget(id);
        ClientEvent::Response { stream: id, status, meta, message: None }
    }

    fn on_reset(&mut self, id: StreamId, error: ErrorCode) -> ClientEvent<'static> {
        let text = format!("the server reset the stream: {error}");
        let mut meta = Vec::new();
        let mut writer = MetaWriter::new(&mut meta);
        writer.status_message(&text);
        // // A server that has begun to reply has begun to execute the call, whatever it says later.
        let has_head = self.calls.get(id).is_some_and(|call| call.has_head);
        if error == ErrorCode::REFUSED_STREAM && !has_head {
            writer.refused();
        }
        self.forget(id);
        let (status, meta) = (status_of_reset(error), Piece::Owned(meta.into()));
        ClientEvent::Response { stream: id, status, meta, message: None }
    }

    /// Ends a call that the server is still running, with a status of the client's own.
    fn fail(&mut self, id: StreamId, status: u8, text: &str) -> ClientEvent<'static> {
        self.forget(id);
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).status_message(text);
        ClientEvent::Response { stream: id, status, meta: Piece::Owned(meta.into()), message: None }
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
pub(super) fn status_of_inflate(error: InflateError) -> u8 {
    match error {
        InflateError::TooLong => code::RESOURCE_EXHAUSTED,
        InflateError::Broken => code::INTERNAL,
        InflateError::Unknown => code::UNIMPLEMENTED,
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
        ClientEvent::Response { stream, status, meta, .. } => {
            let meta = Piece::Owned(meta.into_bytes());
            ClientEvent::Response { stream, status, meta, message: None }
        }
        _ => unreachable!("content is messages, or it ends the call"),
    }
}

/// Makes the event of a GOAWAY; HTTP/2 does not say how much time open calls have.
fn leaving(code: ErrorCode, last: u32, reason: Piece<'_>) -> ClientEvent<'_> {
    let code = match code {
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
        reason,
    }
}

const META_TOO_LARGE: &str = "metadata is longer than the client accepts";
