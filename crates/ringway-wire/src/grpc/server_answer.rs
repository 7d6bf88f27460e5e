//! Replies of handlers and of the machine itself.

use super::compression::{CallCompression, pack};
use super::lines::{self, HTTP_OK, OK};
use super::message::prefix;
use super::names::Compression;
use super::server::{GrpcServer, code};
use super::server_calls::ServedCall;
use super::server_meta::{FIELD_OVERHEAD, ReplyFields};
use crate::http2::{ErrorCode, Line, StreamHandle};
use crate::limits::{GRPC_FIELDS_DOUBTED, GRPC_FIELDS_MAX, HTTP2_BLOCK_MAX};
use crate::native::{Body, Gone, Reply, ServerEvent, StreamId};

impl GrpcServer {
    /// Ends a call and returns the status that was sent. `None` means that the call had already
    /// ended, and nothing is sent.
    ///
    /// If the trailers are larger than the client accepts, a success is replaced by
    /// RESOURCE_EXHAUSTED; a failure keeps its status, and as much of its message as fits. For a client that
    /// has not said how much it accepts, or no more than 16 KiB, a message is shortened so that 8 KiB are not exceeded
    /// for its sake; with a failure it gets 64 KiB at most. A reply
    /// marked as not executed, with UNAVAILABLE, resets the stream so that the client knows.
    #[inline]
    pub fn respond(&mut self, id: StreamId, reply: Reply<'_>) -> Option<u8> {
        let stream = self.calls.find(id)?;
        let call = self.calls.of(stream)?;
        if let Some(body) = &reply.message
            && reply.status == 0
            && reply.meta.is_empty()
            && !call.has_head
            && call.compression.replies == Compression::Identity
            && let Ok(len) = u32::try_from(body.len())
        {
            let head = [HTTP_OK, lines::content_type(call.content_type)];
            let (prefix, body) = (prefix(len, false), reply.message?);
            let sent = self.http.respond(stream, &head, &prefix, body, &[OK]);
            self.calls.end(stream);
            return sent.ok().map(|()| 0);
        }
        self.respond_at(stream, reply)
    }

    #[cold]
    fn respond_at(&mut self, stream: StreamHandle, reply: Reply<'_>) -> Option<u8> {
        let Reply { status, meta, message } = reply;
        let is_too_long = message.as_ref().is_some_and(|it| u32::try_from(it.len()).is_err());
        if is_too_long {
            let text =
                ReplyFields::of_message("the reply is longer than 4 GiB, the limit of a message");
            return self.end_with(stream, code::RESOURCE_EXHAUSTED, &text, None);
        }
        let mut fields = ReplyFields::read(meta);
        let has_head = self.calls.of(stream)?.has_head;
        if fields.is_refused && status == code::UNAVAILABLE && !has_head {
            self.http.reset(stream, ErrorCode::REFUSED_STREAM);
            self.calls.end(stream);
            return Some(status);
        }
        self.shorten_message(&mut fields);
        let room = match status {
            0 => self.trailers_room(),
            _ => self.trailers_room().min(HTTP2_BLOCK_MAX),
        };
        if fields.size() <= room {
            return self.end_with(stream, status, &fields, message);
        }
        // Without its trailers, a success could be mistaken for a complete one.
        if status == 0 {
            let text = ReplyFields::of_message(
                "the metadata of the reply is longer than the client accepts",
            );
            return self.end_with(stream, code::RESOURCE_EXHAUSTED, &text.shortened(room), None);
        }
        self.end_with(stream, status, &fields.shortened(room), None)
    }

    /// Shortens the status message for a client that has not said how much it accepts, or may refuse less: some close
    /// the connection when they get more.
    fn shorten_message(&self, fields: &mut ReplyFields) {
        if matches!(self.http.peer_header_list_max(), u32::MAX | 0..=GRPC_FIELDS_DOUBTED) {
            fields.shorten_within(GRPC_FIELDS_MAX - head_size());
        }
    }

    /// Bytes of fields that the client accepts in trailers beside the status.
    fn trailers_room(&self) -> usize {
        (self.http.peer_header_list_max() as usize).saturating_sub(head_size())
    }

    /// Ends a call with its head if that was not sent, the message if there is one, and trailers.
    fn end_with(
        &mut self,
        stream: StreamHandle,
        status: u8,
        fields: &ReplyFields,
        message: Option<Body<'_>>,
    ) -> Option<u8> {
        let call = self.calls.of(stream)?;
        let head = [HTTP_OK, lines::content_type(call.content_type)];
        let has_head = call.has_head;
        let trailers = |head: &[Line<'static>]| -> Vec<Line<'_>> {
            let status = std::iter::once(lines::status(status));
            head.iter().copied().chain(status).chain(fields.lines()).collect()
        };
        let sent = match message {
            None if !has_head => self.http.head(stream, &trailers(&head), true),
            None => self.http.finish(stream, &trailers(&[])),
            Some(body) => {
                let (head, len) = head_of(call);
                let (prefix, body) =
                    pack(call.compression.replies, call.compression.reply_min, body);
                let trailers = trailers(&[]);
                match has_head {
                    false => self.http.respond(stream, &head[..len], &prefix, body, &trailers),
                    true => self
                        .http
                        .send(stream, &prefix, body, false)
                        .and_then(|_| self.http.finish(stream, &trailers)),
                }
            }
        };
        self.calls.end(stream);
        sent.ok().map(|()| status)
    }

    /// Answers a request that is not a gRPC call with an HTTP status.
    #[cold]
    pub(super) fn answer_plainly(
        &mut self,
        stream: StreamHandle,
        status: &'static [u8],
    ) -> Option<ServerEvent<'static>> {
        self.http.unserved.malformed += 1;
        let line = Line::Once { name: b":status", value: status };
        let _gone_or_answered = self.http.head(stream, &[line], true);
        None
    }

    /// Ends a call that was not reported to the caller, or that the caller gave back.
    #[cold]
    pub(super) fn fail_unknown<'i>(
        &mut self,
        stream: StreamHandle,
        status: u8,
        text: &str,
    ) -> Option<ServerEvent<'i>> {
        self.http.unserved.malformed += 1;
        self.fail(stream, status, text);
        None
    }

    /// Ends a call that has a handler, and returns the event for it.
    #[cold]
    pub(super) fn fail_known<'i>(
        &mut self,
        stream: StreamHandle,
        status: u8,
        text: &str,
    ) -> ServerEvent<'i> {
        let id = self.calls.name(stream).unwrap_or(StreamId::CONNECTION);
        self.fail(stream, status, text);
        ServerEvent::Failed { stream: id, code: status }
    }

    /// Ends a call with a status of the machine's own.
    pub(super) fn fail(&mut self, stream: StreamHandle, status: u8, text: &str) {
        let mut fields = ReplyFields::of_message(text);
        if fields.size() > self.trailers_room() {
            fields = fields.shortened(self.trailers_room());
        }
        let is_refused = |call: &mut ServedCall| call.compression.is_refused();
        if status == code::UNIMPLEMENTED && self.calls.of(stream).is_some_and(is_refused) {
            fields.push_accepted(self.compression.is_some());
        }
        let _gone_or_answered = self.end_with(stream, status, &fields, None);
    }

    /// Sends a message of a stream; with the first one, `meta` is the initial metadata.
    ///
    /// Messages beyond the client's credit are queued without limit: `false` asks the caller to
    /// [wait](Self::has_room) before the next one.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the call has ended. A message or metadata longer than allowed also
    /// ends it, and is reported by [`ServerEvent::Failed`].
    #[inline]
    pub fn send(&mut self, id: StreamId, meta: &[u8], message: Body<'_>) -> Result<bool, Gone> {
        let (stream, call) = self.calls.open(id).ok_or(Gone)?;
        let CallCompression { replies, reply_min, .. } = call.compression;
        if !call.has_head {
            self.send_head(stream, meta)?;
        }
        if u32::try_from(message.len()).is_err() {
            return Err(self
                .refuse_to_send(stream, "a message is longer than 4 GiB, the limit of a message"));
        }
        let (prefix, message) = pack(replies, reply_min, message);
        self.http.send(stream, &prefix, message, false)
    }

    /// Sends initial metadata without waiting for a first message.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] as [`send`](Self::send) does.
    pub fn send_initial(&mut self, id: StreamId, meta: &[u8]) -> Result<(), Gone> {
        let stream = self.calls.find(id).ok_or(Gone)?;
        self.send_head(stream, meta)
    }

    #[inline]
    fn send_head(&mut self, stream: StreamHandle, meta: &[u8]) -> Result<(), Gone> {
        let call = self.calls.of(stream).ok_or(Gone)?;
        if call.has_head {
            return Ok(());
        }
        let (head, len) = head_of(call);
        if meta.is_empty() {
            call.has_head = true;
            return self.http.head(stream, &head[..len], false);
        }
        let fields = ReplyFields::read(meta);
        if fields.size() > self.trailers_room() {
            let text = "initial metadata is longer than the client accepts";
            return Err(self.refuse_to_send(stream, text));
        }
        if let Some(call) = self.calls.of(stream) {
            call.has_head = true;
        }
        let lines: Vec<Line<'_>> = head.into_iter().take(len).chain(fields.lines()).collect();
        self.http.head(stream, &lines, false)
    }

    /// Ends a call whose handler sent more at once than is allowed.
    #[cold]
    fn refuse_to_send(&mut self, stream: StreamHandle, text: &str) -> Gone {
        let failed = self.fail_known(stream, code::RESOURCE_EXHAUSTED, text);
        self.pending.push_back(failed);
        Gone
    }
}

/// Bytes of fields that a head has which is an answer alone, beside those of its reply.
fn head_size() -> usize {
    let head: [(&str, &str); 3] =
        [(":status", "200"), ("content-type", "application/grpc+proto"), ("grpc-status", "16")];
    head.map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD).into_iter().sum()
}

/// The head of a reply that has messages, and its number of lines.
#[inline]
fn head_of(call: &ServedCall) -> ([Line<'static>; 3], usize) {
    let compression = call.compression.replies;
    let content_type = lines::content_type(call.content_type);
    let len = if compression == Compression::Identity { 2 } else { 3 };
    ([HTTP_OK, content_type, lines::encoding(compression.name())], len)
}
