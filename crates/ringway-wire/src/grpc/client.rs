//! The side that calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::call_names::ResponseNames;
use super::calls::Calls;
use super::client_config::ClientConfig;
use super::lines;
use super::message::{PREFIX_LEN, prefix};
use super::meta_fields::FieldTexts;
use super::names::ContentType;
use super::timeout::TimeoutText;
use crate::http2::{ErrorCode, Http2Client, Line, NewRequest, NoStream, Violation, Vocabulary};
use crate::native::{Body, ClientEvent, Gone, Open, OpenError, Outgoing, StreamId};

/// One connection to a server of gRPC as a machine without I/O.
///
/// It is used as a [native client](crate::native::Client) is, and speaks as one to its caller: calls
/// have numbers of the same kind, metadata is written and read by [`MetaWriter`](crate::native::MetaWriter)
/// and [`MetaReader`](crate::native::MetaReader), and events are the same. What gRPC does not have is left
/// out: priorities, leases, reasons of a cancelled call.
///
/// Each call that [`open`](Self::open) starts ends in one [`ClientEvent::Response`], or by
/// [`cancel`](Self::cancel) without an event. When the connection dies, its calls are the caller's to fail.
#[derive(Debug)]
pub struct GrpcClient {
    pub(super) http2: Http2Client,
    pub(super) config: ClientConfig,
    pub(super) calls: Calls,
    /// What is to be told at the next `receive`.
    pub(super) pending: VecDeque<ClientEvent<'static>>,
    /// Bytes of memory for messages that are not whole.
    pub(super) assembled: usize,
    /// What each call says in the same words: put together here.
    path: Vec<u8>,
    texts: FieldTexts,
    /// Metadata of replies is put together here.
    pub(super) scratch: Vec<u8>,
}

/// Codec number of JSON, in [`Open`].
const JSON: u8 = 2;

/// Numbers of methods whose paths are put into the server's table.
const METHODS_MAX: u32 = 1 << 15;

/// Bytes of the fields that each call has, without its path and the server's name, at most: eight
/// names and values, with 32 for each.
const FIXED_FIELDS: usize = 512;

impl GrpcClient {
    /// A connection that was made; preface and settings are ready to be sent.
    #[must_use]
    pub fn new(config: ClientConfig, now: Duration) -> Self {
        let vocabulary = Arc::new(Vocabulary::new(ResponseNames));
        Self::with(config, vocabulary, now)
    }

    /// The same with a vocabulary of [`ResponseNames`] that many connections share.
    #[must_use]
    pub fn with(config: ClientConfig, vocabulary: Arc<Vocabulary>, now: Duration) -> Self {
        Self {
            http2: Http2Client::new(config.http2.clone(), vocabulary, now),
            config,
            calls: Calls::default(),
            pending: VecDeque::new(),
            assembled: 0,
            path: Vec::new(),
            texts: FieldTexts::default(),
            scratch: Vec::new(),
        }
    }

    /// Opens a call.
    ///
    /// # Errors
    ///
    /// When this connection cannot take it now; nothing was sent.
    pub fn open(&mut self, call: Open<'_>) -> Result<StreamId, OpenError> {
        if self.http2.in_flight() >= StreamId::SLOTS as usize {
            return Err(OpenError::Full);
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
        let opened = self.open_with(call, &path, &texts);
        (self.path, self.texts) = (path, texts);
        opened
    }

    fn open_with(
        &mut self,
        call: Open<'_>,
        path: &[u8],
        texts: &FieldTexts,
    ) -> Result<StreamId, OpenError> {
        let size = FIXED_FIELDS + path.len() + self.config.authority.len() + texts.size();
        if size > self.http2.peer_header_list_max() as usize {
            return Err(OpenError::TooLarge);
        }
        let timeout = TimeoutText::new(call.timeout.unwrap_or_default());
        let path = match call.method {
            1..METHODS_MAX => lines::path(call.method as u16, path),
            _ => Line::Once { name: b":path", value: path },
        };
        let content_type = match call.codec {
            JSON => ContentType::Json,
            _ => ContentType::Plain,
        };
        let own = [
            lines::POST,
            if self.config.is_secure { lines::HTTPS } else { lines::HTTP },
            path,
            lines::authority(self.config.authority.as_bytes()),
            lines::TE,
            lines::content_type(content_type),
            lines::user_agent(self.config.user_agent.as_bytes()),
            lines::timeout(&timeout),
        ];
        let own = &own[..own.len() - usize::from(call.timeout.is_none())];
        let head: Vec<Line<'_>>;
        let head = match texts.is_empty() {
            true => own,
            false => {
                head = own.iter().copied().chain(texts.lines()).collect();
                &head
            }
        };
        let before = call.message.as_ref().map(|message| prefix(message.len() as u32, false));
        let prefix = before.as_ref().map_or(&[][..], |prefix| &prefix[..]);
        let request = NewRequest { head, prefix, body: call.message, end: call.end };
        let stream = self.http2.open(request).map_err(|none| self.open_error(none))?;
        Ok(self.calls.begin(stream, self.config.max_message))
    }

    fn open_error(&self, none: NoStream) -> OpenError {
        match none {
            NoStream::Full => OpenError::Full,
            // It has no time to look at when it has failed.
            NoStream::Leaving if self.http2.poll_timeout().is_none() => OpenError::Closed,
            NoStream::Leaving => OpenError::Draining,
        }
    }

    /// Sends a message of an open call; `end`: the last one. Messages beyond the server's window
    /// wait here, however many: `false` says that the next one [should wait](Self::has_room).
    ///
    /// # Errors
    ///
    /// [`Gone`] when the call has ended, or the last message was sent.
    pub fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<bool, Gone> {
        let handle = self.calls.stream(stream).ok_or(Gone)?;
        let prefix: [u8; PREFIX_LEN] = prefix(message.len() as u32, false);
        self.http2.send(handle, &prefix, message, end)
    }

    /// Says that no more messages follow on an open call, if that was not said before.
    pub fn finish(&mut self, stream: StreamId) {
        if let Some(handle) = self.calls.stream(stream) {
            // One that has ended its side has nothing to say.
            let _ = self.http2.finish(handle, &[]);
        }
    }

    /// Gives a call up: no event of it comes any more. The server is told that it was cancelled,
    /// whatever the code and the reason.
    pub fn cancel(&mut self, stream: StreamId, _code: u8, _reason: &str) {
        self.pending.retain(|event| !is_of(event, stream));
        self.forget(stream);
    }

    /// Ends a call here and, as far as it goes on, at the server.
    pub(super) fn forget(&mut self, stream: StreamId) {
        if let Some(call) = self.calls.get(stream) {
            self.assembled -= call.messages.incomplete_len();
        }
        if let Some(handle) = self.calls.end(stream) {
            self.http2.reset(handle, ErrorCode::CANCEL);
        }
    }

    /// Tells that the reader took `messages` out of its queue, so that the server may send as many
    /// bytes more. Each [`ClientEvent::Message`] is to be told once.
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        if let Some(call) = self.calls.get(stream) {
            let (handle, bytes) = (call.stream, call.take(messages));
            self.http2.taken(handle, bytes);
        }
    }

    /// Whether a writer may send at once. If not, because more of its stream than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) waits or because much of all streams does,
    /// [`ClientEvent::Writable`] wakes it.
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.calls.stream(stream).is_none_or(|handle| self.http2.has_room(handle))
    }

    /// Bytes of a stream that wait for the server's window or for their turn.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.calls.stream(stream).map_or(0, |handle| self.http2.unsent(handle))
    }

    /// Calls that may be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.http2.capacity()
    }

    /// Calls that have begun and not ended, and cancelled ones of which the server is not told yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.http2.in_flight()
    }

    /// Servers of gRPC grant no leases.
    #[must_use]
    pub fn lease_cuts(&self) -> u32 {
        0
    }

    /// Whether an open call may have been executed by a server that has gone after it had taken
    /// `accepted` requests, as its GOAWAY said. Those beyond have ended already, as not executed.
    #[must_use]
    pub fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool {
        self.calls.stream(stream).is_some_and(|handle| {
            handle.id().div_ceil(2) <= accepted && self.http2.was_sent(handle)
        })
    }

    /// Announces that no more calls are opened, as before closing. `false`: it was announced, or the
    /// server leaves by itself.
    pub fn announce_leave(&mut self) -> bool {
        self.http2.go_away(ErrorCode::NO_ERROR, "")
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one frame.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.http2.transmit(budget, out);
    }

    /// Bodies that were given up instead of being sent, to be [dropped](crate::native::Body) by the
    /// caller. Ask after calls that end streams; nothing else remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        self.http2.take_discarded()
    }

    /// Gives up all that is to be sent, as [discarded](Self::take_discarded) bodies: the connection is
    /// gone.
    pub fn discard_output(&mut self) {
        self.http2.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has something to give.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.http2.has_output()
    }

    /// Bytes written and not yet handed out, without those that wait in queues of streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.http2.output_len()
    }

    /// Bytes kept of a frame and of messages that are not whole.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.http2.incomplete_len() + self.assembled
    }

    /// Whether [`receive`](Self::receive) has an event to give, whatever its input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.pending.is_empty() || self.http2.has_events()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.http2.poll_timeout()
    }

    /// Does what is due: PING. Earlier calls than [`poll_timeout`](Self::poll_timeout) asks for do no harm.
    ///
    /// # Errors
    ///
    /// When the server is gone, as in [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.http2.handle_timeout(now)
    }
}

fn is_of(event: &ClientEvent<'_>, of: StreamId) -> bool {
    match event {
        ClientEvent::Response { stream, .. } | ClientEvent::Message { stream, .. } => *stream == of,
        _ => false,
    }
}
