//! The server side of gRPC.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::client_input::Input;
use super::compression::ServerCompression;
use super::guests::Guests;
use super::message::PREFIX_LEN;
use super::server_calls::{ServedCall, ServedCalls};
use super::server_end::ServerDrain;
use crate::deadlines::Deadlines;
use crate::http2::{
    ErrorCode, Event, Http2Config, Http2Server, StreamHandle, Violation, Vocabulary,
};
use crate::native::{Credit, Outgoing, Piece, PlainRequest, ServerEvent, Side, StreamId, Unserved};
use crate::rare_queue::RareQueue;
use crate::reading_clock::ReadingClock;

/// Configuration of a gRPC server's connections.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Configuration of the HTTP/2 connection.
    pub http2: Arc<Http2Config>,
    /// Largest message that is accepted, in bytes.
    pub max_message: u32,
}

/// The server side of one gRPC connection, as a state machine without I/O.
///
/// It has the interface of [`native::Server`](crate::native::Server), so that one driver serves
/// both: streams are numbered by slots, a request has a
/// [`RequestHead`](crate::native::RequestHead), and metadata is written by a
/// [`MetaWriter`](crate::native::MetaWriter) in the native form. The rules there for events, for
/// the end of calls, and for held memory apply here as well. A head's `method` is the number in
/// [`RequestNames`](super::RequestNames), or 0 with the name in the metadata if it is unknown.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use ringway_wire::grpc::{GrpcServer, RequestNames, ServerConfig};
/// use ringway_wire::http2::{Http2Config, Vocabulary};
/// use ringway_wire::native::{Body, Reply, ServerEvent};
///
/// let vocabulary = Vocabulary::new(RequestNames::new([("/echo.Echo/Say", 1)]));
/// let config = ServerConfig { http2: Http2Config::default().into(), max_message: 4 << 20 };
/// let mut server = GrpcServer::new(config, Arc::new(vocabulary), Duration::ZERO);
/// # let mut received: &[u8] = &[];
/// while let Some(event) = server.receive(&mut received, Duration::ZERO)? {
///     if let ServerEvent::Request { stream, message: Some(message), .. } = event {
///         let message = Some(Body::Copy(&message));
///         server.respond(stream, Reply { status: 0, meta: &[], message });
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GrpcServer {
    pub(super) http: Http2Server,
    pub(super) calls: ServedCalls,
    /// The compression settings; `None` means no compression.
    pub(super) compression: Option<Arc<ServerCompression>>,
    /// Events that the caller gets at its next `receive`, before any input is decoded.
    pub(super) pending: RareQueue<ServerEvent<'static>>,
    /// Deadlines of calls whose requests are incomplete.
    pub(super) waits: Option<Box<Deadlines<StreamId>>>,
    /// The time by which they are late.
    pub(super) reading: ReadingClock,
    pub(super) drain: Option<Box<ServerDrain>>,
    /// Requests that are no calls; `None` refuses them.
    pub(super) guests: Option<Box<Guests>>,
    /// Bytes into which messages were decompressed, and nobody has heard of.
    pub(super) inflated: u32,
}

impl GrpcServer {
    /// Creates the server side of an accepted connection; `vocabulary` must be one of
    /// [`RequestNames`](super::RequestNames).
    #[must_use]
    pub fn new(config: ServerConfig, vocabulary: Arc<Vocabulary>, now: Duration) -> Self {
        Self {
            http: Http2Server::new(config.http2, vocabulary, now),
            calls: ServedCalls::new(config.max_message),
            compression: None,
            pending: RareQueue::default(),
            waits: None,
            reading: ReadingClock::default(),
            drain: None,
            guests: None,
            inflated: 0,
        }
    }

    /// Enables compression from the next call on. A compressed message counts with its decompressed
    /// length.
    pub fn set_compression(&mut self, compression: Arc<ServerCompression>) {
        self.compression = Some(compression);
    }

    /// Always `None`: gRPC has no fast path for requests.
    #[inline(always)]
    pub fn receive_plain<'i>(
        &mut self,
        _input: &mut &'i [u8],
        _now: Duration,
    ) -> Option<PlainRequest<'i>> {
        None
    }

    /// Takes the next message of a stream off the front of `input` on a fast path for the messages
    /// of one DATA frame. Call it after [`receive`](Self::receive). `None` only means that the next
    /// input needs `receive`.
    #[inline]
    pub fn receive_message<'i>(&mut self, input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        if !self.pending.is_empty() {
            return None;
        }
        let (stream, content) = self.http.plain_content(input)?;
        let (id, message) = self.calls.plain_message(stream, content)?;
        self.http.take_content(PREFIX_LEN + message.len(), input);
        Some((id, message))
    }

    /// Decodes frames from the front of `input` until one yields an event.
    ///
    /// # Errors
    ///
    /// Fails when the client broke the protocol, and with the same error at every later call.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        self.http.now = now;
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let before = *input;
            let Some(event) = self.http.receive(input, now)? else {
                return Ok(None);
            };
            let input = Input { before, rest: input };
            let event = match event {
                Event::Head { stream, data, end } => self.on_head(stream, data, end, input),
                Event::Data { stream, data, end } => self.on_content(stream, data, end, input),
                event => self.on_other(event, input),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    #[cold]
    fn on_other<'i>(&mut self, event: Event<'i>, input: Input<'_, 'i>) -> Option<ServerEvent<'i>> {
        match event {
            Event::Trailers { stream } => self.on_content(stream, Piece::EMPTY, true, input),
            Event::Reset { stream: http, .. } => {
                let Some((stream, is_known)) = self.on_gone(http) else {
                    return self.on_guest_gone(http);
                };
                let reason = Piece::EMPTY;
                is_known.then_some(ServerEvent::Cancelled { stream, code: code::CANCELLED, reason })
            }
            Event::Failed { stream: http, code } => {
                let Some((stream, is_known)) = self.on_gone(http) else {
                    return self.on_guest_gone(http);
                };
                // The machine cancels a stream whose client has accepted no data for too long.
                let code = match code {
                    ErrorCode::CANCEL => code::RESOURCE_EXHAUSTED,
                    _ => code::INTERNAL,
                };
                is_known.then_some(ServerEvent::Failed { stream, code })
            }
            Event::Writable { stream: http } => {
                let Some(stream) = self.calls.name(http) else {
                    return self.on_guest_writable(http);
                };
                Some(ServerEvent::Writable { stream })
            }
            Event::Leaving { code, reason, .. } => {
                Some(ServerEvent::PeerLeaving { code: code.0, reason })
            }
            Event::Head { .. } | Event::Data { .. } => unreachable!("looked at before"),
            Event::Capacity | Event::DrainOver | Event::Pong { .. } => None,
        }
    }

    /// Ends the call of a stream that is over, and tells whether its handler must know.
    fn on_gone(&mut self, stream: StreamHandle) -> Option<(StreamId, bool)> {
        self.http.let_go(stream);
        let call = self.calls.of(stream)?;
        let (id, is_known) = (call.id(), call.is_known());
        self.calls.end(stream);
        Some((id, is_known))
    }

    /// Calls whose last byte is not written yet.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.http.in_flight()
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one frame.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.http.transmit(budget, out);
    }

    /// Takes the bodies that were discarded instead of sent, for the caller to
    /// [drop](crate::native::Body). Call it after each call that ends streams, since nothing else
    /// remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        self.http.take_discarded()
    }

    /// Discards all unsent output because the connection is lost;
    /// [`take_discarded`](Self::take_discarded) returns the bodies.
    pub fn discard_output(&mut self) {
        self.http.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has bytes to hand out.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.http.has_output()
    }

    /// Bytes of written frames not handed out yet, without the data queued by streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.http.output_len()
    }

    /// Whether [`receive`](Self::receive) has something to report even without input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.pending.is_empty() || self.http.has_events()
    }

    /// Bytes held for one side: unread input, or unsent output.
    #[inline]
    #[must_use]
    pub fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => {
                let guests = self.guests.as_ref().map_or(0, |guests| guests.kept());
                self.calls.kept() + self.http.incomplete_len() + guests
            }
            Side::Unsent => self.http.unsent_len(),
        }
    }

    /// Bytes of replies that wait for the client's windows, or for their turn: the part of the unsent output that
    /// no written frame holds. More input may open the windows, so receiving must not wait for these.
    #[inline]
    #[must_use]
    pub fn queued_len(&self) -> usize {
        self.http.queued_len()
    }

    /// Bytes of a call's messages that count among the [unread](Self::kept_len) until they are taken.
    #[must_use]
    pub fn unread_len(&self, stream: StreamId) -> usize {
        let call = self.calls.find(stream).and_then(|stream| self.calls.get(stream));
        call.map_or(0, ServedCall::kept)
    }

    /// Requests that have not come whole, and have neither begun nor been answered, guests among them.
    #[inline]
    #[must_use]
    pub fn unbegun(&self) -> usize {
        self.calls.held_back() + self.guests.as_ref().map_or(0, |guests| guests.unbegun())
    }

    /// Takes the number of bytes into which messages were decompressed since the last time.
    #[inline]
    pub fn take_inflated(&mut self) -> usize {
        std::mem::take(&mut self.inflated) as usize
    }

    /// Always 0: what finished streams leave behind is too little to be counted.
    #[inline]
    #[must_use]
    pub fn spare_len(&self) -> usize {
        0
    }

    /// Frees the memory that earlier messages and finished streams have left for the next ones. What
    /// is under way is not affected.
    pub fn drop_spare(&mut self) {
        self.http.drop_spare();
        if self.http.in_flight() == 0 {
            self.calls.drop_spare();
        }
        self.pending.drop_spare();
        self.waits.take_if(|waits| waits.next().is_none());
    }

    /// Calls that this machine has ended by itself.
    #[inline]
    #[must_use]
    pub fn unserved(&self) -> Unserved {
        self.http.unserved
    }

    /// The status with which a call failed, if its [`Failed`](ServerEvent::Failed) event is still
    /// pending.
    #[cold]
    #[must_use]
    pub fn failure(&self, stream: StreamId) -> Option<u8> {
        self.pending.iter().find_map(|pending| match *pending {
            ServerEvent::Failed { stream: of, code } if of == stream => Some(code),
            _ => None,
        })
    }

    /// Whether the stream's writer may send now; if not, [`Writable`](ServerEvent::Writable) tells
    /// when it may.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.calls.find(stream).is_none_or(|http| self.http.has_room(http))
    }

    /// The credit of a call's stream; `None` if the call is over.
    #[must_use]
    pub fn credit(&self, stream: StreamId) -> Option<Credit> {
        self.calls.find(stream).and_then(|http| self.http.credit(http))
    }

    /// The credit that all streams of the connection share.
    #[must_use]
    pub fn shared_credit(&self) -> Credit {
        self.http.shared_credit()
    }

    /// Does nothing: HTTP/2 has no lease that may change at any time.
    pub fn lease(&mut self, _permits: u32) {}

    /// Turns memory pressure on or off, as
    /// [`Connection::set_memory_pressure`](crate::http2::Connection::set_memory_pressure) does.
    pub fn set_memory_pressure(&mut self, is_under_pressure: bool) {
        self.http.set_memory_pressure(is_under_pressure);
    }
}

/// Statuses that the machine itself sends.
pub(super) mod code {
    pub(in crate::grpc) const CANCELLED: u8 = 1;
    pub(in crate::grpc) const DEADLINE_EXCEEDED: u8 = 4;
    pub(in crate::grpc) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(in crate::grpc) const UNIMPLEMENTED: u8 = 12;
    pub(in crate::grpc) const INTERNAL: u8 = 13;
    pub(in crate::grpc) const UNAVAILABLE: u8 = 14;
}
