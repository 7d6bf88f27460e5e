//! The server side of a connection, which answers calls.

use std::time::Duration;

use bytes::Bytes;

use super::draining::Drain;
use super::frame::OutgoingFrame;
use super::names::Names;
use super::native_connection::{Before, NONE, NativeConnection, Pending, Stage};
use super::server_answer::INITIAL_TOO_LONG;
use super::server_event::{PlainRequest, ServerEvent};
use super::server_resets::Resets;
use super::slots::{Found, NO_STREAM};
use super::too_large::TooLarge;
use super::transmit::Served;
use super::unserved::Unserved;
use super::{
    Body, Config, Credit, Flags, FrameKind, Gone, Outgoing, Reply, Settings, Side, StreamId,
    Violation,
};
use crate::deadlines::Deadlines;

/// The server side of one connection, as a state machine without I/O: bytes go into
/// [`receive`](Self::receive), which returns events, and bytes to send come out of
/// [`transmit`](Self::transmit).
///
/// Streams are numbered by dense slots: [`StreamId::slot`] can index a table of the caller. Every
/// request ends in exactly one RESPONSE: by [`respond`](Self::respond), or by the machine if the
/// call was cancelled or broke a limit, which it reports as an event.
///
/// The output is bounded if the caller stops calling `receive` while much of it is unsent: see
/// [`output_len`](Self::output_len).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ringway_wire::native::{
///     Body, Client, ClientEvent, Config, Open, Outgoing, Reply, Server, ServerEvent,
/// };
///
/// let now = Duration::ZERO;
/// let mut client = Client::new(Config::default(), now);
/// let mut server = Server::new(Config::default(), now);
/// let call = client.open(Open {
///     method: 1,
///     name: "echo.Echo/Say",
///     message: Some(Body::Copy(b"hello")),
///     end: true,
///     ..Open::default()
/// })?;
///
/// let mut wire = Vec::new();
/// client.transmit(usize::MAX, &mut |out| match out {
///     Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
///     Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
/// });
/// let mut input = &wire[..];
/// while let Some(event) = server.receive(&mut input, now)? {
///     if let ServerEvent::Request { stream, message: Some(message), .. } = event {
///         let message = Some(Body::Copy(&message));
///         server.respond(stream, Reply { status: 0, meta: &[], message });
///     }
/// }
///
/// let mut wire = Vec::new();
/// server.transmit(usize::MAX, &mut |out| match out {
///     Outgoing::Copy(bytes) => wire.extend_from_slice(bytes),
///     Outgoing::Shared(bytes) => wire.extend_from_slice(&bytes),
/// });
/// let mut input = &wire[..];
/// let event = client.receive(&mut input, now)?;
/// assert!(matches!(
///     event,
///     Some(ClientEvent::Response { stream, status: 0, message: Some(message), .. })
///         if stream == call && *message == *b"hello"
/// ));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    pub(super) connection: NativeConnection,
    pub(super) resets: Resets,
    /// Requests that may be in flight: `max_streams`, or the lease if smaller, or 0 at the end of a
    /// drain or while too many calls are cancelled.
    pub(super) permits: usize,
    /// Upper bound of slot numbers. A client that has not read our settings yet uses the default
    /// number.
    pub(super) slots_max: u32,
    /// The lease that was set last.
    pub(super) lease: Option<u32>,
    pub(super) drain: Option<Drain>,
    pub(super) names: Names,
    /// Deadlines of incomplete calls.
    pub(super) waits: Deadlines<StreamId>,
    /// Longest payload of a request on the fast path.
    pub(super) plain_len_max: usize,
    /// Calls that it has ended by itself.
    pub(super) unserved: Unserved,
}

impl Server {
    /// Creates the server side of an accepted connection, which sends nothing before the client's
    /// preface.
    #[must_use]
    pub fn new(config: Config, now: Duration) -> Self {
        let streams_max = config.settings.max_streams;
        let mut server = Self {
            connection: NativeConnection::new(config, now),
            resets: Resets::new(now),
            permits: streams_max as usize,
            slots_max: streams_max.max(Settings::default().max_streams),
            lease: None,
            names: Names::default(),
            waits: Deadlines::default(),
            drain: None,
            plain_len_max: 0,
            unserved: Unserved::default(),
        };
        server.note_window();
        server
    }

    /// As [`receive`](Self::receive), but only for a [`PlainRequest`], the most common input of a
    /// server: `None` leaves `input` unchanged.
    #[inline(always)]
    pub fn receive_plain<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Option<PlainRequest<'i>> {
        self.connection.hear(input, now);
        if !self.connection.is_plain() {
            return None;
        }
        self.plain_request(input)
    }

    /// Decodes frames from the front of `input` until one yields an event.
    ///
    /// `None` means that the input is used up; a frame cut at its end is buffered. The event
    /// borrows from `input` only, so the machine can be used while the event is alive. Events
    /// caused by `transmit` ([`has_events`](Self::has_events)) come first, even with an empty
    /// input.
    ///
    /// # Errors
    ///
    /// Fails when the client broke the protocol, and with the same error at every later call.
    /// [`transmit`](Self::transmit) still hands out the GOAWAY; close the connection after that.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        self.connection.hear(input, now);
        if self.connection.is_plain()
            && let Some(event) = self.plain_event(input)
        {
            return Ok(Some(event));
        }
        self.receive_any(input)
    }

    fn receive_any<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<ServerEvent<'i>>, Violation> {
        loop {
            if !self.connection.is_plain() {
                match self.before_frames(input) {
                    Ok(Before::Frames) => {}
                    Ok(Before::Nothing) => return Ok(None),
                    Ok(Before::Event(event)) => return Ok(Some(event)),
                    Err(violation) => return Err(violation),
                }
            }
            let event = match self.connection.frame_decoder.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.on_frame(frame),
                Err(violation) => Err(violation),
            };
            match event {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(violation) => return Err(self.connection.fail(violation)),
            }
        }
    }

    #[cold]
    fn before_frames<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Before<ServerEvent<'i>>, Violation> {
        if let Some(violation) = &self.connection.failed {
            self.connection.is_failure_untold = false;
            return Err(violation.clone());
        }
        match self.connection.pending.pop_front() {
            Some(Pending::Writable(stream)) => {
                return Ok(Before::Event(ServerEvent::Writable { stream }));
            }
            Some(Pending::Failed(stream, code)) => {
                return Ok(Before::Event(ServerEvent::Failed { stream, code }));
            }
            Some(Pending::Capacity) | None => {}
        }
        if self.connection.stage == Stage::Preface {
            match self.connection.take_preface(input) {
                Ok(None) => return Ok(Before::Nothing),
                Ok(Some(())) => self.greet(),
                Err(violation) => {
                    if matches!(violation, Violation::WrongVersion { .. }) {
                        self.connection.greet();
                    }
                    return Err(self.connection.fail(violation));
                }
            }
        }
        Ok(Before::Frames)
    }

    /// Ends a call and returns the status that was sent. `None` means that the call had already
    /// ended, was cancelled or failed, and nothing is sent.
    ///
    /// Messages sent on the stream before go first. A message longer than one frame, or than the
    /// client's credit, keeps the stream in [`in_flight`](Self::in_flight) until it has left.
    ///
    /// A message longer than the client accepts is replaced by RESOURCE_EXHAUSTED. So is a success
    /// whose metadata is too long; a failure keeps its status, and as much of its metadata as fits.
    #[inline]
    pub fn respond(&mut self, stream: StreamId, reply: Reply<'_>) -> Option<u8> {
        let connection = &mut self.connection;
        let index = connection.slots.find_open(stream)?;
        let is_plain = connection.slots.at(index).stream == NO_STREAM && reply.meta.is_empty();
        if let Some(body) = &reply.message
            && is_plain
            && body.len() <= connection.peer.max_message as usize
            && connection.is_direct(body)
            && connection.failed.is_none()
        {
            let frame = OutgoingFrame {
                kind: FrameKind::Response,
                flags: Flags::END,
                stream,
                aux: u32::from(reply.status),
                head: &[],
                meta: &[],
                payload: &[],
            };
            connection.outbox.put_body(&frame, body);
            connection.slots.end(index);
            return Some(reply.status);
        }
        self.respond_at(index, stream, reply)
    }

    /// Sends a message of a stream; with the first one, `meta` is the initial metadata.
    ///
    /// Messages beyond the client's credit are queued without limit: `false` asks the caller to
    /// [wait](Self::has_room) before the next one.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the call has ended. A message or metadata longer than the client
    /// accepts also ends it, and is reported by [`ServerEvent::Failed`].
    #[inline]
    pub fn send(&mut self, stream: StreamId, meta: &[u8], message: Body<'_>) -> Result<bool, Gone> {
        let connection = &mut self.connection;
        let index = connection.slots.find_open(stream).ok_or(Gone)?;
        if connection.failed.is_some() {
            return Err(Gone);
        }
        if message.len() > connection.peer.max_message as usize {
            let too_large =
                TooLarge::Message { len: message.len(), max: connection.peer.max_message };
            return Err(self.refuse_to_send(index, &too_large.text("client")));
        }
        if meta.len() > connection.peer.max_meta as usize {
            return Err(self.refuse_to_send(index, INITIAL_TOO_LONG));
        }
        let stream_index = connection.reply_stream(index);
        let frame = OutgoingFrame {
            kind: FrameKind::Data,
            flags: NONE,
            stream,
            aux: 0,
            head: &[],
            meta,
            payload: &[],
        };
        connection.send(stream_index, frame, message);
        Ok(!connection.streams.get(stream_index).send.wants_writable)
    }

    /// Sends initial metadata without waiting for a first message.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the call has ended. Metadata longer than the client accepts also ends
    /// it, and is reported by [`ServerEvent::Failed`].
    pub fn send_initial(&mut self, stream: StreamId, meta: &[u8]) -> Result<(), Gone> {
        let connection = &mut self.connection;
        let index = connection.slots.find_open(stream).ok_or(Gone)?;
        if connection.failed.is_some() {
            return Err(Gone);
        }
        if meta.len() > connection.peer.max_meta as usize {
            return Err(self.refuse_to_send(index, INITIAL_TOO_LONG));
        }
        let stream_index = connection.reply_stream(index);
        let (kind, flags) = (FrameKind::Data, Flags::NOMSG);
        let frame = OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta, payload: &[] };
        connection.send_empty(stream_index, &frame);
        Ok(())
    }

    /// Reports that the reader took `messages` from its queue, so that credit for them is returned
    /// (section 6). Report each message exactly once, unless the request itself ended its side of
    /// the stream; then the report has no effect.
    #[inline]
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        self.connection.taken(stream, messages);
    }

    /// Whether the stream's writer may send now. It may not while more than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) bytes of the stream, or many bytes of all
    /// streams, are unsent; [`ServerEvent::Writable`] tells when it may again.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.connection.has_room(stream)
    }

    /// The credit of a stream; `None` if it has none, such as that of a call with one message each way.
    #[must_use]
    pub fn credit(&self, stream: StreamId) -> Option<Credit> {
        self.connection.credit_of(stream)
    }

    /// Bytes of a stream that wait for credit or for their turn to be sent.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.connection.unsent(stream)
    }

    /// Calls that have started and whose RESPONSE is not written yet.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.connection.slots.live()
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one small message.
    /// Messages are fragmented here, so those not handed out yet can still be overtaken.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.connection.transmit(budget, out, |connection, stream, served| {
            if served == Served::Final
                && let Found::Live(index) = connection.slots.find(stream)
            {
                connection.end_answered(index);
            }
        });
    }

    /// Takes the bodies that were discarded instead of sent, for the caller to [drop](Body). Call
    /// it after each call that ends streams, since nothing else remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.connection.streams.discarded)
    }

    /// Discards all unsent output because the connection is lost;
    /// [`take_discarded`](Self::take_discarded) returns the bodies.
    pub fn discard_output(&mut self) {
        self.connection.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has bytes to hand out.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.connection.outbox.is_empty()
    }

    /// Bytes of encoded frames not handed out yet, without the messages queued by streams. They
    /// grow with the client's input, so stop reading from a client that does not read.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.connection.outbox.backlog()
    }

    /// Memory, in bytes, of an incomplete frame, incomplete messages and incomplete requests: at
    /// most 64 MiB (or one message, if longer ones are accepted) and one frame, the metadata of the
    /// requests, and about half a KiB for each stream concerned.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.connection.incomplete()
    }

    /// Bytes of [incomplete](Self::incomplete_len) input and of messages that were not
    /// [taken](Self::taken). If a request ended its side of the stream, its messages belong to the
    /// handler at once and do not count.
    #[inline]
    #[must_use]
    pub fn buffered_len(&self) -> usize {
        self.connection.buffered()
    }

    /// Bytes held for one side: [unread](Self::buffered_len) input, or unsent output. The output is
    /// [written](Self::output_len), or queued by streams that wait for credit or their turn,
    /// including streams of calls that were already answered.
    ///
    /// The caller sums this over its connections. If the sum exceeds its memory limit, it can call
    /// [`set_memory_pressure`](Self::set_memory_pressure) or [`end_largest`](Self::end_largest).
    #[inline]
    #[must_use]
    pub fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.connection.buffered(),
            Side::Unsent => self.connection.unsent_len(),
        }
    }

    /// Memory, in bytes, of finished streams that is kept for new ones: at most 1 MiB, and not
    /// included in the other figures.
    #[inline]
    #[must_use]
    pub fn spare_len(&self) -> usize {
        self.connection.streams.spare()
    }

    /// Frees the [memory](Self::spare_len) of finished streams.
    pub fn drop_spare(&mut self) {
        self.connection.streams.drop_spare();
    }

    /// Requests that have not come whole and are not answered.
    #[inline]
    #[must_use]
    pub fn unbegun(&self) -> usize {
        self.connection.streams.held_back()
    }

    /// Calls that this machine has ended by itself.
    #[inline]
    #[must_use]
    pub fn unserved(&self) -> Unserved {
        self.unserved
    }

    /// Whether [`receive`](Self::receive) has something to report even without input: an event, or
    /// a failure of the connection.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.connection.pending.is_empty() || self.connection.is_failure_untold
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout); `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.connection.failed.is_some() {
            return None;
        }
        let keepalive = self.connection.keepalive.deadline(self.connection.now);
        let drain = self.drain.map(|drain| drain.next().unwrap_or(self.connection.now));
        Some([drain, self.waits.next()].into_iter().flatten().fold(keepalive, Duration::min))
    }

    pub(super) fn note_window(&mut self) {
        self.plain_len_max = self.connection.plain_len_max().min(self.connection.window as usize);
    }
}
