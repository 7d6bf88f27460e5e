//! How a server handles the heads of calls and their messages.

use std::time::Duration;

use bytes::Bytes;

use super::call_names::{CallHead, NoCall};
use super::client_input::Input;
use super::compress::decompress;
use super::compression::CallCompression;
use super::inflate_error::InflateError;
use super::message::{Message, MessageError};
use super::names::{Compression, ContentType};
use super::server::{GrpcServer, code};
use super::server_calls::HeldRequest;
use super::server_meta::{RequestMeta, TOO_LARGE};
use crate::http2::{ErrorCode, StreamHandle};
use crate::limits::GRPC_INFLATED_MAX;
use crate::native::{Piece, RequestHead, ServerEvent, StreamId};
use crate::rates::moved;

impl GrpcServer {
    #[inline]
    pub(super) fn on_head<'i>(
        &mut self,
        stream: StreamHandle,
        data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Option<ServerEvent<'i>> {
        let fields = self.http.fields();
        let read = CallHead::read(fields.head());
        let head = match read {
            Ok(head) if !fields.is_cut() && !self.is_drain_over() => head,
            read => return self.refuse_head(stream, read, data, end),
        };
        let method = head.method.unwrap_or_default();
        let meta = match fields.is_empty() && !RequestMeta::is_needed(&head) {
            true => Piece::EMPTY,
            false => match RequestMeta::write(&head, fields) {
                Ok(meta) => Piece::Owned(meta),
                Err((status, text)) => {
                    self.begin(stream, &head);
                    return self.fail_unknown(stream, status, text);
                }
            },
        };
        let id = self.begin(stream, &head);
        let request = RequestHead {
            method,
            timeout_us: timeout_us(head.timeout),
            codec: codec(head.content_type),
            attempt: head.attempts.min(u32::from(u8::MAX)) as u8,
            ..RequestHead::default()
        };
        let (message, end) = match data.is_empty() && !end {
            true => (None, false),
            false => match self.first_message(stream, data, end, input) {
                Ok(first) => first,
                Err(Unfit { status, text }) => return self.fail_unknown(stream, status, &text),
            },
        };
        Some(ServerEvent::Request { stream: id, head: request, meta, message, end })
    }

    #[inline]
    fn begin(&mut self, stream: StreamHandle, head: &CallHead) -> StreamId {
        let compression = match &self.compression {
            Some(compression) => compression.of(head),
            None => CallCompression::none(head),
        };
        let call = self.calls.begin(stream);
        (call.content_type, call.compression) = (head.content_type, compression);
        call.until = match head.timeout {
            Some(timeout) => self.http.now.saturating_add(timeout),
            None => Duration::MAX,
        };
        call.id()
    }

    /// The first message of a call, if it arrived with the head, and whether the request has ended.
    #[inline]
    fn first_message<'i>(
        &mut self,
        stream: StreamHandle,
        mut data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Result<(Option<Piece<'i>>, bool), Unfit> {
        let Some(Whole { message, wire_len, is_inflated }) =
            self.next_message(stream, &mut data, end)?
        else {
            return Ok((None, end));
        };
        if !data.is_empty() {
            self.calls.note_message(stream, message.len(), wire_len);
            self.http.put_back(stream, data.len(), end, input.before, input.rest);
            return Ok((Some(message), false));
        }
        let end = end || self.http.take_end(stream, input.rest);
        if !end || is_inflated {
            self.calls.note_message(stream, message.len(), wire_len);
        }
        Ok((Some(message), end))
    }

    /// Takes the next message off the front of a stream's content; `end` says that nothing follows
    /// it.
    #[inline]
    fn next_message<'i>(
        &mut self,
        stream: StreamHandle,
        data: &mut Piece<'i>,
        end: bool,
    ) -> Result<Option<Whole<'i>>, Unfit> {
        let before = data.len();
        let (next, compression) = self
            .calls
            .change(stream, |call| {
                let next = call.messages.next(data);
                let is_cut = end && matches!(next, Ok(None)) && call.messages.finish().is_err();
                let next = if is_cut { Err(MessageError::Cut) } else { next };
                (next, call.compression)
            })
            .ok_or(Unfit { status: code::CANCELLED, text: String::new() })?;
        match next? {
            Some(Message { is_compressed: false, bytes }) => {
                let wire_len = bytes.len();
                Ok(Some(Whole { message: bytes, wire_len, is_inflated: false }))
            }
            Some(Message { is_compressed: true, bytes }) => {
                let wire_len = bytes.len();
                let message = Piece::Owned(self.inflate(&bytes, compression)?);
                Ok(Some(Whole { message, wire_len, is_inflated: true }))
            }
            None => {
                let credit = self.calls.note_part(stream, before - data.len());
                self.http.taken(stream, credit);
                Ok(None)
            }
        }
    }

    #[cold]
    fn inflate(&mut self, bytes: &[u8], compression: CallCompression) -> Result<Bytes, Unfit> {
        if !compression.takes {
            return Err(Unfit::compressed(compression.requests));
        }
        // A few compressed bytes may become many, for which the client needs no credit.
        if self.calls.kept() > GRPC_INFLATED_MAX {
            let text = "the server holds too many unread bytes of decompressed messages";
            return Err(Unfit { status: code::RESOURCE_EXHAUSTED, text: text.into() });
        }
        let inflated = decompress(compression.requests, bytes, self.calls.message_max())?;
        self.inflated = self.inflated.saturating_add(inflated.len() as u32);
        Ok(inflated)
    }

    /// Handles content of a call that has started before.
    pub(super) fn on_content<'i>(
        &mut self,
        stream: StreamHandle,
        mut data: Piece<'i>,
        end: bool,
        input: Input<'_, 'i>,
    ) -> Option<ServerEvent<'i>> {
        let Some(call) = self.calls.of(stream) else {
            return self.on_guest_content(stream, data, end);
        };
        if !call.is_known() {
            call.touched = moved(call.touched, data.len(), self.reading.at(self.http.now));
        }
        let (id, is_known, is_ignored) = (call.id(), call.is_known(), call.is_ignored);
        loop {
            let message = match self.next_message(stream, &mut data, end) {
                Ok(message) => message,
                Err(Unfit { status, text }) if is_known => {
                    self.http.unserved.malformed += 1;
                    return Some(self.fail_known(stream, status, &text));
                }
                Err(Unfit { status, text }) => return self.fail_unknown(stream, status, &text),
            };
            let is_last = end && data.is_empty();
            if !is_known {
                if !data.is_empty() {
                    let text = "the method takes one message, and more were sent";
                    return self.fail_unknown(stream, code::UNIMPLEMENTED, text);
                }
                return self.on_rest(stream, message, is_last);
            }
            let Some(Whole { message, wire_len, .. }) = message else {
                return is_last.then_some(ServerEvent::End { stream: id });
            };
            if is_ignored {
                let _never_given_back = self.calls.forget_message(stream, wire_len);
                match (data.is_empty(), is_last) {
                    (true, true) => return Some(ServerEvent::End { stream: id }),
                    (true, false) => return None,
                    (false, _) => continue,
                }
            }
            self.calls.note_message(stream, message.len(), wire_len);
            self.http.put_back(stream, data.len(), end, input.before, input.rest);
            return Some(ServerEvent::Message { stream: id, message, end: is_last });
        }
    }

    /// Handles content of a request that is held back until it is complete.
    fn on_rest<'i>(
        &mut self,
        stream: StreamHandle,
        whole: Option<Whole<'i>>,
        end: bool,
    ) -> Option<ServerEvent<'i>> {
        if let Some(Whole { wire_len, .. }) = whole {
            // // Otherwise a second message could wait for credit instead of being refused.
            let credit = self.calls.forget_message(stream, wire_len);
            self.http.taken(stream, credit);
        }
        let message = whole.map(|whole| whole.message);
        let (now, call) = (self.http.now, self.calls.of(stream)?);
        let has_two = message.is_some() && call.request.as_ref()?.message.is_some();
        if has_two {
            let text = "the method takes one message, and more were sent";
            return self.fail_unknown(stream, code::UNIMPLEMENTED, text);
        }
        if !end {
            let message = message.map(|message| Bytes::copy_from_slice(&message));
            self.calls.change(stream, |call| {
                if let Some(request) = &mut call.request {
                    request.message = message.or(request.message.take());
                }
            });
            return None;
        }
        let (id, until) = (call.id(), call.until);
        let is_inflated = call.compression.requests != Compression::Identity;
        if until <= now {
            self.end_late(stream);
            return None;
        }
        let request = self.calls.change(stream, |call| call.request.take())??;
        let HeldRequest { mut head, meta, message: kept } = *request;
        if until != Duration::MAX {
            head.timeout_us = timeout_us(Some(until.saturating_sub(now)));
        }
        let message = message.or(kept.map(Piece::Owned));
        if is_inflated && let Some(message) = &message {
            self.calls.note_message(stream, message.len(), 0); // until it is taken, or the call ends
        }
        Some(ServerEvent::Request { stream: id, head, meta: Piece::Owned(meta), message, end })
    }

    /// Takes back a request whose method needs it complete: one message, and the end after it. It
    /// is reported again as [`Request`](ServerEvent::Request) when its end has arrived, with the
    /// message if there was one. Until then the machine answers it.
    pub fn await_rest(
        &mut self,
        id: StreamId,
        head: RequestHead,
        meta: &[u8],
        message: Option<&[u8]>,
    ) {
        let Some(stream) = self.calls.find(id) else { return };
        // The message was counted as one for a reader.
        let credit = self.calls.taken(stream, usize::from(message.is_some()));
        self.http.taken(stream, credit);
        let meta = Bytes::copy_from_slice(meta);
        let message = message.map(Bytes::copy_from_slice);
        let request = Box::new(HeldRequest { head, meta, message });
        let touched = self.reading.at(self.http.now);
        self.calls.change(stream, |call| {
            (call.request, call.touched) = (Some(request), touched);
        });
        self.watch(stream);
    }

    /// Reports that the reader took `messages` from its queue, so that credit for them is returned.
    #[inline]
    pub fn taken(&mut self, id: StreamId, messages: usize) {
        if let Some(stream) = self.calls.find(id) {
            let credit = self.calls.taken(stream, messages);
            self.http.taken(stream, credit);
        }
    }

    /// Drops the messages of a call that stays open although nobody reads them any more. The client
    /// gets no credit for more.
    pub fn ignore(&mut self, id: StreamId) {
        let Some(stream) = self.calls.find(id) else { return };
        let _not_given_back = self.calls.taken(stream, usize::MAX);
        self.calls.change(stream, |call| call.is_ignored = true);
    }

    /// Answers a request that is not a call, comes too late or has too many fields.
    #[cold]
    fn refuse_head<'i>(
        &mut self,
        stream: StreamHandle,
        read: Result<CallHead, NoCall>,
        data: Piece<'i>,
        end: bool,
    ) -> Option<ServerEvent<'i>> {
        if self.is_drain_over() {
            self.http.unserved.refused += 1;
            self.http.reset(stream, ErrorCode::REFUSED_STREAM);
            return None;
        }
        match read {
            Ok(head) => {
                self.begin(stream, &head);
                self.fail_unknown(stream, code::RESOURCE_EXHAUSTED, TOO_LARGE)
            }
            Err(NoCall::WrongTimeout) => {
                let call = self.calls.begin(stream);
                call.content_type = ContentType::Plain; // not that of the slot's last call
                call.compression = CallCompression::NO_CALL;
                self.fail_unknown(stream, code::INTERNAL, "grpc-timeout is malformed")
            }
            Err(_) if self.guests.is_some() => self.on_guest(stream, data, end),
            Err(NoCall::WrongMethod) => self.answer_plainly(stream, b"405"),
            Err(NoCall::WrongContentType) => self.answer_plainly(stream, b"415"),
        }
    }
}

/// A complete message, with its length on the wire.
struct Whole<'i> {
    message: Piece<'i>,
    wire_len: usize,
    /// Whether it was decompressed: then it counts until it is taken, even behind the end of its stream.
    is_inflated: bool,
}

/// The reason why a call must end because of its client's input.
struct Unfit {
    status: u8,
    text: String,
}

impl Unfit {
    #[cold]
    fn compressed(compression: Compression) -> Self {
        match compression {
            Compression::Identity => Self {
                status: code::INTERNAL,
                text: "a message is compressed, and grpc-encoding does not say how".into(),
            },
            _ => Self {
                status: code::UNIMPLEMENTED,
                text: "a message uses a compression that the server does not accept".into(),
            },
        }
    }
}

impl From<InflateError> for Unfit {
    #[cold]
    fn from(error: InflateError) -> Self {
        let status = match error {
            InflateError::TooLong => code::RESOURCE_EXHAUSTED,
            InflateError::Broken => code::INTERNAL,
            InflateError::Unknown => code::UNIMPLEMENTED,
        };
        Self { status, text: error.to_string() }
    }
}

impl From<MessageError> for Unfit {
    #[cold]
    fn from(error: MessageError) -> Self {
        let status = match error {
            MessageError::TooLong { .. } => code::RESOURCE_EXHAUSTED,
            MessageError::WrongFlag(_) | MessageError::Cut => code::INTERNAL,
        };
        Self { status, text: error.to_string() }
    }
}

/// The timeout in microseconds, rounded up and at least one; 0 stands for none.
#[inline]
fn timeout_us(timeout: Option<Duration>) -> u32 {
    let micros = |timeout: Duration| {
        let whole = timeout.as_secs().saturating_mul(1_000_000);
        whole.saturating_add(u64::from(timeout.subsec_nanos().div_ceil(1_000)))
    };
    timeout.map_or(0, |timeout| u32::try_from(micros(timeout)).unwrap_or(u32::MAX).max(1))
}

/// The codec number in a request head.
#[inline]
fn codec(content_type: ContentType) -> u8 {
    match content_type {
        ContentType::Plain | ContentType::Proto => 1,
        ContentType::Json => 2,
        ContentType::Unknown | ContentType::NotGrpc => 0,
    }
}
