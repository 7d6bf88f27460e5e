//! The side of gRPC that accepts connections and answers calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::client_input::Input;
use super::compression::ServerCompression;
use super::server_calls::ServedCalls;
use super::server_end::ServerDrain;
use crate::deadlines::Deadlines;
use crate::http2::{
    ErrorCode, Event, Http2Config, Http2Server, StreamHandle, Violation, Vocabulary,
};
use crate::native::{Outgoing, Piece, PlainRequest, ServerEvent, Side, StreamId};

/// What a server of gRPC accepts, and how long it waits.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// That of the connection.
    pub http2: Http2Config,
    /// Bytes of the longest message that is accepted.
    pub max_message: u32,
}

/// One accepted connection that speaks gRPC, as a machine without I/O.
///
/// It is used like [`native::Server`](crate::native::Server) and speaks its words, so that one driver
/// serves both: streams are numbered by slots, a request has a
/// [`RequestHead`](crate::native::RequestHead), and metadata is written by a
/// [`MetaWriter`](crate::native::MetaWriter), whatever it is on the wire. What is said there of events,
/// of calls that end, and of bytes that are kept, holds here as well. A head's `method` is the number
/// that [`RequestNames`](super::RequestNames) has; 0 and the name in the metadata where it has none.
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
/// let config = ServerConfig { http2: Http2Config::default(), max_message: 4 << 20 };
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
    /// `None`: nothing is.
    pub(super) compression: Option<Arc<ServerCompression>>,
    pub(super) stall_timeout: Duration,
    /// What the caller is told at its next `receive`, whatever arrives.
    pub(super) pending: VecDeque<ServerEvent<'static>>,
    /// Of calls whose requests are not whole.
    pub(super) waits: Deadlines<StreamId>,
    pub(super) drain: Option<ServerDrain>,
    /// The time at the last call that told it.
    pub(super) now: Duration,
    pub(super) refused: u64,
    pub(super) overdue: u64,
}

impl GrpcServer {
    /// A connection that was accepted; `vocabulary` is one of [`RequestNames`](super::RequestNames).
    #[must_use]
    pub fn new(config: ServerConfig, vocabulary: Arc<Vocabulary>, now: Duration) -> Self {
        Self {
            stall_timeout: config.http2.stall_timeout,
            http: Http2Server::new(config.http2, vocabulary, now),
            calls: ServedCalls::new(config.max_message),
            compression: None,
            pending: VecDeque::new(),
            waits: Deadlines::default(),
            drain: None,
            now,
            refused: 0,
            overdue: 0,
        }
    }

    /// Has compressed messages taken, and replies compressed, from the next call on. A message counts with
    /// the length that it has when it is decompressed.
    pub fn set_compression(&mut self, compression: Arc<ServerCompression>) {
        self.compression = Some(compression);
    }

    /// Requests that need no closer look: there are none.
    #[inline(always)]
    pub fn receive_plain<'i>(
        &mut self,
        _input: &mut &'i [u8],
        _now: Duration,
    ) -> Option<PlainRequest<'i>> {
        None
    }

    /// Messages that need no closer look: there are none.
    #[inline(always)]
    pub fn receive_message<'i>(&mut self, _input: &mut &'i [u8]) -> Option<(StreamId, &'i [u8])> {
        None
    }

    /// Takes frames off the front of `input` until one is an event.
    ///
    /// # Errors
    ///
    /// When the client broke the protocol. The same error comes again ever after.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        self.now = now;
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
            Event::Reset { stream, .. } => {
                let (stream, is_known) = self.on_gone(stream)?;
                let reason = Piece::EMPTY;
                is_known.then_some(ServerEvent::Cancelled { stream, code: code::CANCELLED, reason })
            }
            Event::Failed { stream, code } => {
                let (stream, is_known) = self.on_gone(stream)?;
                // The only stream that is cancelled from here is one whose client takes nothing.
                let code = match code {
                    ErrorCode::CANCEL => code::RESOURCE_EXHAUSTED,
                    _ => code::INTERNAL,
                };
                is_known.then_some(ServerEvent::Failed { stream, code })
            }
            Event::Writable { stream } => {
                let stream = self.calls.name(stream)?;
                Some(ServerEvent::Writable { stream })
            }
            Event::Leaving { code, reason, .. } => {
                Some(ServerEvent::PeerLeaving { code: code.0, reason })
            }
            Event::Head { .. } | Event::Data { .. } => unreachable!("looked at before"),
            Event::Capacity | Event::DrainOver | Event::Pong { .. } => None,
        }
    }

    /// A stream is over, whatever its call was about; whether a handler is to be told.
    fn on_gone(&mut self, stream: StreamHandle) -> Option<(StreamId, bool)> {
        self.http.let_go(stream);
        let call = self.calls.of(stream)?;
        let (id, is_known) = (call.id(), call.is_known());
        self.calls.end(stream);
        Some((id, is_known))
    }

    /// Calls that have begun and whose last byte is not written yet.
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

    /// Bodies that were given up instead of being sent, to be [dropped](crate::native::Body) by the
    /// caller. Ask after calls that end streams; nothing else remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        self.http.take_discarded()
    }

    /// Gives up all that is to be sent, as [discarded](Self::take_discarded) bodies: the connection is
    /// gone.
    pub fn discard_output(&mut self) {
        self.http.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has something to give.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.http.has_output()
    }

    /// Bytes written and not yet handed out, without those that wait in queues of streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.http.output_len()
    }

    /// Whether [`receive`](Self::receive) has something to tell, whatever its input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.pending.is_empty() || self.http.has_events()
    }

    /// Bytes kept for readers, or those to be sent.
    #[inline]
    #[must_use]
    pub fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.calls.kept() + self.http.incomplete_len(),
            Side::Unsent => self.http.unsent_len(),
        }
    }

    /// Bytes of memory of streams that are over: it is given back at once.
    #[inline]
    #[must_use]
    pub fn spare_len(&self) -> usize {
        0
    }

    /// Does nothing, as there is [none](Self::spare_len).
    pub fn drop_spare(&mut self) {}

    /// Requests that this machine has answered as not executed.
    #[inline]
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Requests that this machine has ended, since they did not come whole in time.
    #[inline]
    #[must_use]
    pub fn overdue(&self) -> u64 {
        self.overdue
    }

    /// The status with which a call has ended, if its [`Failed`](ServerEvent::Failed) is still to come.
    #[cold]
    #[must_use]
    pub fn failure(&self, stream: StreamId) -> Option<u8> {
        self.pending.iter().find_map(|pending| match *pending {
            ServerEvent::Failed { stream: of, code } if of == stream => Some(code),
            _ => None,
        })
    }

    /// Whether a writer may send at once; if not, [`Writable`](ServerEvent::Writable) wakes it.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.calls.find(stream).is_none_or(|http| self.http.has_room(http))
    }

    /// Does nothing: HTTP/2 has no word for how many calls are welcome that may change at any time.
    pub fn lease(&mut self, _permits: u32) {}

    /// Asks the client for less, or no longer, as [`Connection`](crate::http2::Connection::set_tight).
    pub fn set_tight(&mut self, is_tight: bool) {
        self.http.set_tight(is_tight);
    }
}

/// Statuses that the machine gives.
pub(super) mod code {
    pub(in crate::grpc) const CANCELLED: u8 = 1;
    pub(in crate::grpc) const DEADLINE_EXCEEDED: u8 = 4;
    pub(in crate::grpc) const RESOURCE_EXHAUSTED: u8 = 8;
    pub(in crate::grpc) const UNIMPLEMENTED: u8 = 12;
    pub(in crate::grpc) const INTERNAL: u8 = 13;
    pub(in crate::grpc) const UNAVAILABLE: u8 = 14;
}
