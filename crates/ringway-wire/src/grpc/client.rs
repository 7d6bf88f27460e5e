//! The client side of gRPC.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::call_names::ResponseNames;
use super::calls::Calls;
use super::client_config::ClientConfig;
use super::compression::{ClientCompression, accepted_names, pack};
use super::known_heads::{HeadKey, KnownHead, KnownHeads};
use super::lines;
use super::message::{PREFIX_LEN, prefix};
use super::meta_fields::FieldTexts;
use super::names::ContentType;
use super::timeout::Timeouts;
use crate::http2::{
    ErrorCode, Http2Client, Line, NewRequest, NoStream, StreamHandle, Violation, Vocabulary,
};
use crate::limits::HTTP2_OWN_STREAMS_MAX;
use crate::native::{Body, ClientEvent, Gone, Open, OpenError, Outgoing, StreamId};

/// The client side of one gRPC connection, as a state machine without I/O.
///
/// It has the interface of a [native client](crate::native::Client): calls have the same kind of
/// ids, metadata is written and read by [`MetaWriter`](crate::native::MetaWriter) and
/// [`MetaReader`](crate::native::MetaReader), and events are the same. Features that gRPC lacks are
/// ignored: priorities, leases, reasons of cancelled calls.
///
/// Each call that [`open`](Self::open) starts ends in one [`ClientEvent::Response`] or
/// [`ClientEvent::Failed`], or by [`cancel`](Self::cancel) without an event. When the connection dies, the caller fails its calls.
#[derive(Debug)]
pub struct GrpcClient {
    pub(super) http2: Http2Client,
    pub(super) config: ClientConfig,
    pub(super) calls: Calls,
    /// Events that the caller gets at its next `receive`.
    pub(super) pending: VecDeque<ClientEvent<'static>>,
    /// The reason in the server's GOAWAY, if it has sent one.
    pub(super) left: Option<String>,
    /// Memory, in bytes, of incomplete messages.
    pub(super) assembled: usize,
    timeouts: Timeouts,
    heads: KnownHeads,
    /// Buffer in which a call's `:path` is assembled.
    path: Vec<u8>,
    texts: FieldTexts,
    /// The value of `grpc-accept-encoding`, if it is sent.
    accepted: Option<Vec<u8>>,
    /// Buffer in which the metadata of replies is assembled.
    pub(super) scratch: Vec<u8>,
}

const _: () = assert!(HTTP2_OWN_STREAMS_MAX <= StreamId::SLOTS, "each stream has an id");

/// The codec number of JSON in [`Open`].
const JSON: u8 = 2;

/// Number of methods whose paths may be added to the server's table.
const METHODS_MAX: u32 = 1 << 15;

/// Upper bound for the fields that every call has, without path and authority: ten names and
/// values, with 32 bytes added for each.
const FIXED_FIELDS: usize = 640;

impl GrpcClient {
    /// Creates the client side of an established connection, with preface and settings ready to
    /// send.
    #[must_use]
    pub fn new(config: ClientConfig, now: Duration) -> Self {
        let vocabulary = Arc::new(Vocabulary::new(ResponseNames));
        Self::with(config, vocabulary, now)
    }

    /// As [`new`](Self::new), with a vocabulary of [`ResponseNames`] that many connections share.
    #[must_use]
    pub fn with(config: ClientConfig, vocabulary: Arc<Vocabulary>, now: Duration) -> Self {
        Self {
            http2: Http2Client::new(config.http2.clone(), vocabulary, now),
            accepted: config.compression.map(|_| accepted_names(true)),
            config,
            calls: Calls::default(),
            pending: VecDeque::new(),
            left: None,
            assembled: 0,
            timeouts: Timeouts::default(),
            heads: KnownHeads::default(),
            path: Vec::new(),
            texts: FieldTexts::default(),
            scratch: Vec::new(),
        }
    }

    /// Opens a call.
    ///
    /// # Errors
    ///
    /// Returns an error when this connection cannot open the call now; nothing was sent.
    pub fn open(&mut self, call: Open<'_>) -> Result<StreamId, OpenError> {
        let key = HeadKey::of(&call);
        if let Some(head) = key.and_then(|key| self.heads.find(key))
            && self.http2.is_current(&head.block)
            && head.size <= self.http2.peer_header_list_max() as usize
        {
            let (block, http2) = (&head.block, &mut self.http2);
            let opened = send_request(http2, self.config.compression, call, |http2, request| {
                http2.open_encoded(block, request)
            });
            return self.begin(opened);
        }
        let mut path = std::mem::take(&mut self.path);
        let mut texts = std::mem::take(&mut self.texts);
        path.clear();
        path.push(b'/');
        path.extend_from_slice(call.name.as_bytes());
        texts.clear();
        if call.attempt > 0 {
            let attempts = call.attempt.to_string();
            let value = |out: &mut Vec<u8>| out.extend_from_slice(attempts.as_bytes());
            texts.push(b"grpc-previous-rpc-attempts", value, false);
        }
        texts.push_meta(call.meta);
        let opened = self.open_with(call, key, &path, &texts);
        (self.path, self.texts) = (path, texts);
        opened
    }

    fn open_with(
        &mut self,
        call: Open<'_>,
        key: Option<HeadKey>,
        path: &[u8],
        texts: &FieldTexts,
    ) -> Result<StreamId, OpenError> {
        let size = FIXED_FIELDS + path.len() + self.config.authority.len() + texts.size();
        if size > self.http2.peer_header_list_max() as usize {
            return Err(OpenError::TooLarge);
        }
        let mut text = None;
        let timeout = call.timeout.map(|timeout| self.timeouts.line(timeout, &mut text));
        let path = match call.method {
            1..METHODS_MAX => lines::path(call.method as u16, path),
            _ => Line::Once { name: b":path", value: path },
        };
        let content_type = match call.codec {
            JSON => ContentType::Json,
            _ => ContentType::Plain,
        };
        let by = self.config.compression.and_then(ClientCompression::of_requests);
        let encoding = by.map(|by| lines::encoding(by.name()));
        let accepted = self.accepted.as_deref().map(lines::accept_encoding);
        let mut own = [
            lines::POST,
            if self.config.is_secure { lines::HTTPS } else { lines::HTTP },
            path,
            lines::authority(self.config.authority.as_bytes()),
            lines::TE,
            lines::content_type(content_type),
            lines::user_agent(self.config.user_agent.as_bytes()),
            // Places of those that only some calls have.
            lines::POST,
            lines::POST,
            lines::POST,
        ];
        let mut len = own.len() - 3;
        for line in [timeout, encoding, accepted].into_iter().flatten() {
            own[len] = line;
            len += 1;
        }
        let own = &own[..len];
        let head: Vec<Line<'_>>;
        let head = match texts.is_empty() {
            true => own,
            false => {
                head = own.iter().copied().chain(texts.lines()).collect();
                &head
            }
        };
        let opened =
            send_request(&mut self.http2, self.config.compression, call, |http2, request| {
                http2.open(NewRequest { head, ..request })
            });
        // The head is not short with a timeout that is written out.
        let is_usual = !matches!(timeout, Some(Line::Named { .. }));
        if let Some(key) = key.filter(|_| is_usual)
            && let Some(block) = self.http2.short_head(head)
        {
            self.heads.keep(key, KnownHead { block, size });
        }
        self.begin(opened)
    }

    #[inline]
    fn begin(&mut self, opened: Result<StreamHandle, NoStream>) -> Result<StreamId, OpenError> {
        let stream = opened.map_err(|none| self.open_error(none))?;
        Ok(self.calls.begin(stream, self.config.max_message))
    }

    fn open_error(&self, none: NoStream) -> OpenError {
        match none {
            NoStream::Full => OpenError::Full,
            NoStream::Leaving if self.http2.has_failed() => OpenError::Closed,
            NoStream::Leaving => OpenError::Draining,
        }
    }

    /// Sends a message of an open call; `end` marks the last one. Messages beyond the server's
    /// window are queued without limit: `false` asks the caller to [wait](Self::has_room) before
    /// the next one.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the call has ended or the last message was already sent.
    pub fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<bool, Gone> {
        let handle = self.calls.stream(stream).ok_or(Gone)?;
        let (prefix, message) = packed(self.config.compression, message);
        self.http2.send(handle, &prefix, message, end)
    }

    /// Half-closes an open call: no more messages follow. Does nothing if that was already said.
    pub fn finish(&mut self, stream: StreamId) {
        if let Some(handle) = self.calls.stream(stream) {
            // Fails only if this side of the stream has ended already.
            let _ = self.http2.finish(handle, &[]);
        }
    }

    /// Cancels a call, which yields no more events. The server only learns that it was cancelled,
    /// not the code and the reason.
    pub fn cancel(&mut self, stream: StreamId, _code: u8, _reason: &str) {
        self.pending.retain(|event| !is_of(event, stream));
        self.forget(stream);
    }

    /// Ends a call here and, if it is still running, on the server.
    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Some(handle) = self.end_call(stream) {
            self.http2.reset(handle, ErrorCode::CANCEL);
        }
    }

    /// Ends a call here, and returns its stream.
    pub(super) fn end_call(&mut self, stream: StreamId) -> Option<StreamHandle> {
        if let Some(call) = self.calls.get(stream) {
            self.assembled -= call.messages.incomplete_len();
        }
        self.calls.end(stream)
    }

    /// Reports that the reader took `messages` from its queue, so that credit for them is returned.
    /// Report each [`ClientEvent::Message`] exactly once.
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        if let Some((handle, bytes)) = self.calls.take(stream, messages) {
            self.http2.taken(handle, bytes);
        }
    }

    /// Whether the stream's writer may send now. It may not while more than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) bytes of the stream, or many bytes of all
    /// streams, are unsent; [`ClientEvent::Writable`] tells when it may again.
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.calls.stream(stream).is_none_or(|handle| self.http2.has_room(handle))
    }

    /// Bytes of a stream that wait for the server's window or for their turn to be sent.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.calls.stream(stream).map_or(0, |handle| self.http2.unsent(handle))
    }

    /// How many calls can be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.http2.capacity()
    }

    /// Calls that have not ended, and cancelled ones whose RST_STREAM is held back.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.http2.in_flight()
    }

    /// Always 0, because gRPC servers grant no leases.
    #[must_use]
    pub fn lease_cuts(&self) -> u32 {
        0
    }

    /// Whether the server may have executed an open call before it left, if it had accepted
    /// `accepted` requests, as its GOAWAY said. Later calls have already ended as not executed.
    #[must_use]
    pub fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool {
        self.calls.stream(stream).is_some_and(|handle| {
            handle.id().div_ceil(2) <= accepted && self.http2.was_sent(handle)
        })
    }

    /// Sends GOAWAY: this client opens no more calls. Call it before closing. `false` if it was sent
    /// before, or the server has sent one.
    pub fn announce_leave(&mut self) -> bool {
        self.http2.go_away(ErrorCode::NO_ERROR, "")
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one frame.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.http2.transmit(budget, out);
    }

    /// Takes the bodies that were discarded instead of sent, for the caller to
    /// [drop](crate::native::Body). Call it after each call that ends streams, since nothing else
    /// remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        self.http2.take_discarded()
    }

    /// Discards all unsent output because the connection is lost;
    /// [`take_discarded`](Self::take_discarded) returns the bodies.
    pub fn discard_output(&mut self) {
        self.http2.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has bytes to hand out.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.http2.has_output()
    }

    /// Bytes of written frames not handed out yet, without the data queued by streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.http2.output_len()
    }

    /// Bytes buffered for an incomplete frame and incomplete messages.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.http2.incomplete_len() + self.assembled
    }

    /// Whether [`receive`](Self::receive) has an event even without input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.pending.is_empty() || self.http2.has_events()
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout); `None` after a failure, and
    /// while nothing is awaited.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.http2.poll_timeout()
    }

    /// Does what is due by now, such as sending a PING. Calling it before
    /// [`poll_timeout`](Self::poll_timeout) says is harmless.
    ///
    /// # Errors
    ///
    /// Fails when the server no longer answers; the error repeats as with
    /// [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.http2.handle_timeout(now)
    }
}

/// Opens a stream with the message of a call.
#[inline]
fn send_request(
    http2: &mut Http2Client,
    compression: Option<ClientCompression>,
    call: Open<'_>,
    open: impl FnOnce(&mut Http2Client, NewRequest<'_>) -> Result<StreamHandle, NoStream>,
) -> Result<StreamHandle, NoStream> {
    let request = NewRequest { end: call.end, ..NewRequest::default() };
    match call.message {
        // Where there is no stream for it, the same message comes again.
        Some(message) if http2.capacity() > 0 => {
            let (prefix, body) = packed(compression, message);
            open(http2, NewRequest { prefix: &prefix, body: Some(body), ..request })
        }
        message => open(http2, NewRequest { body: message, ..request }),
    }
}

/// A message with its prefix, compressed if that is wanted.
#[inline]
fn packed(
    compression: Option<ClientCompression>,
    message: Body<'_>,
) -> ([u8; PREFIX_LEN], Body<'_>) {
    match compression {
        Some(ClientCompression { requests, request_min }) => pack(requests, request_min, message),
        None => (prefix(message.len() as u32, false), message),
    }
}

fn is_of(event: &ClientEvent<'_>, of: StreamId) -> bool {
    match event {
        ClientEvent::Response { stream, .. }
        | ClientEvent::Failed { stream, .. }
        | ClientEvent::Message { stream, .. } => *stream == of,
        _ => false,
    }
}
