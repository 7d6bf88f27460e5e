//! The side that accepts connections and answers calls.

use std::time::Duration;

use bytes::Bytes;

use super::frame::OutgoingFrame;
use super::names::Names;
use super::native_connection::{Before, NONE, NativeConnection, Pending, Stage};
use super::server_answer::INITIAL_TOO_LONG;
use super::server_event::{PlainRequest, ServerEvent};
use super::server_resets::Resets;
use super::slots::{Found, NO_STREAM};
use super::too_large::TooLarge;
use super::transmit::Served;
use super::{
    Body, Config, Flags, FrameKind, Gone, Outgoing, Reply, Settings, Side, StreamId, Violation,
};
use crate::deadlines::Deadlines;

/// One accepted connection as a machine without I/O: bytes go into [`receive`](Self::receive),
/// events come out of it, and bytes to send out of [`transmit`](Self::transmit).
///
/// Streams are numbered by dense slots: [`StreamId::slot`] may index a table of the caller's.
/// Every request ends in exactly one RESPONSE, by [`respond`](Self::respond) or, when it was
/// cancelled or broke a limit, by the machine, which then says so with an event.
///
/// The output of a machine is bounded as long as its caller stops calling `receive` while much of
/// it is unsent: see [`output_len`](Self::output_len).
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
    /// Requests that may be in flight: `max_streams`, the lease if that is less, 0 while draining or
    /// while too many are given up.
    pub(super) permits: usize,
    /// Slots must be below. A client that has not read our settings yet uses the default number.
    pub(super) slots_max: u32,
    /// The lease that was set last.
    pub(super) lease: Option<u32>,
    pub(super) drain: Option<Drain>,
    pub(super) names: Names,
    /// Of calls of which something is missing.
    pub(super) waits: Deadlines<StreamId>,
    /// Longest payload of a request that needs no closer look.
    pub(super) plain_len_max: usize,
    /// Requests that were answered as not executed.
    pub(super) refused: u64,
    /// Requests that did not come whole in time.
    pub(super) overdue: u64,
}

/// The end of a connection that finishes what it has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    pub(super) length: Duration,
    /// Known from the first look at the clock on.
    pub(super) until: Option<Duration>,
}

impl Server {
    /// A connection that was accepted; nothing is sent before the client has greeted.
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
            refused: 0,
            overdue: 0,
        };
        server.note_window();
        server
    }

    /// As [`receive`](Self::receive), for a [`PlainRequest`] alone, which is most of what a server
    /// gets: `None` leaves `input` as it is.
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

    /// Takes frames off the front of `input` until one is an event.
    ///
    /// `None`: the input is used up, and a frame cut at its end is kept. The event borrows from
    /// `input` only, so the machine may be used while it is looked at. What `transmit` has caused
    /// ([`has_events`](Self::has_events)) comes first; an empty input will do for it.
    ///
    /// # Errors
    ///
    /// When the client broke the protocol. The same error comes again ever after;
    /// [`transmit`](Self::transmit) still gives the GOAWAY, then the connection is to be closed.
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

    /// Ends a call, with the status that is returned. `None`: it had ended already, cancelled or failed,
    /// and nothing is sent.
    ///
    /// What was sent on the stream before goes first. A message longer than one frame, or than
    /// the client's credit, keeps the stream in [`in_flight`](Self::in_flight) until it has left.
    ///
    /// A message that is longer than the client takes is answered as RESOURCE_EXHAUSTED in its place.
    /// So is a success with such metadata; a failure keeps its status, and of its metadata what fits.
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

    /// Sends a message of a stream, with `meta` as the initial metadata when it is the first.
    ///
    /// Messages beyond the client's credit wait here, however many: `false` says that the next one
    /// [should wait](Self::has_room).
    ///
    /// # Errors
    ///
    /// [`Gone`] when the call has ended, as it does when the message or the metadata is longer than
    /// the client takes: then with [`ServerEvent::Failed`].
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
        let place = connection.reply_stream(index);
        let frame = OutgoingFrame {
            kind: FrameKind::Data,
            flags: NONE,
            stream,
            aux: 0,
            head: &[],
            meta,
            payload: &[],
        };
        connection.send(place, frame, message);
        Ok(!connection.streams.get(place).send.wants_writable)
    }

    /// Sends initial metadata without waiting for a first message.
    ///
    /// # Errors
    ///
    /// [`Gone`] when the call has ended, as it does when the metadata is longer than the client
    /// takes: then with [`ServerEvent::Failed`].
    pub fn send_initial(&mut self, stream: StreamId, meta: &[u8]) -> Result<(), Gone> {
        let connection = &mut self.connection;
        let index = connection.slots.find_open(stream).ok_or(Gone)?;
        if connection.failed.is_some() {
            return Err(Gone);
        }
        if meta.len() > connection.peer.max_meta as usize {
            return Err(self.refuse_to_send(index, INITIAL_TOO_LONG));
        }
        let place = connection.reply_stream(index);
        let (kind, flags) = (FrameKind::Data, Flags::NOMSG);
        let frame = OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta, payload: &[] };
        connection.send_empty(place, &frame);
        Ok(())
    }

    /// Tells that the reader took `messages` out of its queue, so that those behind them return
    /// their credit (section 6). Each message of a stream that was not ended by its request is to
    /// be told once; for other streams nothing happens.
    #[inline]
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        self.connection.taken(stream, messages);
    }

    /// Whether a writer may send at once. If not, because more of its stream than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) waits or because much of all streams does,
    /// [`ServerEvent::Writable`] wakes it.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.connection.has_room(stream)
    }

    /// Bytes of a stream that wait for credit or for their turn.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.connection.unsent(stream)
    }

    /// Calls that have begun and whose RESPONSE is not written yet.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.connection.slots.live()
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one small message.
    /// Messages are cut to fragments here, so what is not asked for can still be overtaken.
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

    /// Bodies that were given up instead of being sent, to be [dropped](Body) by the caller. Ask after
    /// calls that end streams; nothing else remembers them.
    #[inline]
    #[must_use]
    pub fn take_discarded(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.connection.streams.discarded)
    }

    /// Gives up all that is to be sent, as [discarded](Self::take_discarded) bodies: the connection is
    /// gone.
    pub fn discard_output(&mut self) {
        self.connection.discard_output();
    }

    /// Whether [`transmit`](Self::transmit) has something to give.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.connection.outbox.is_empty()
    }

    /// Bytes written and not yet handed out, without those that wait in queues of streams. They
    /// grow with what the client sends, so read no more from a client that does not read.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.connection.outbox.backlog()
    }

    /// Bytes of memory for what is not whole: a frame, messages, and requests of which something is
    /// missing; at most 64 MiB and one frame, or one message where longer ones are taken, the metadata
    /// of the requests, and about half a KiB for each stream concerned.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.connection.incomplete()
    }

    /// Bytes kept for readers: [those](Self::incomplete_len) of what is not whole, and messages that
    /// were not [taken](Self::taken). Of a stream that was ended by its request, messages are the
    /// handler's at once and do not count.
    ///
    #[inline]
    #[must_use]
    pub fn buffered_len(&self) -> usize {
        self.connection.buffered()
    }

    /// Bytes kept of one side: [those](Self::buffered_len) for readers; or those to be sent, which are
    /// [written](Self::output_len), or wait in queues of streams for credit or for their turn, also of
    /// calls that have been answered.
    ///
    /// The caller sums this over its connections. When that is more than it can afford, it has two
    /// answers: [`set_tight`](Self::set_tight), and [`end_largest`](Self::end_largest).
    #[inline]
    #[must_use]
    pub fn kept_len(&self, side: Side) -> usize {
        match side {
            Side::Unread => self.connection.buffered(),
            Side::Unsent => self.connection.unsent_len(),
        }
    }

    /// Bytes of memory of streams that are over, kept for those to come: 1 MiB at most. They count for
    /// none of the others.
    #[inline]
    #[must_use]
    pub fn spare_len(&self) -> usize {
        self.connection.streams.spare()
    }

    /// Gives [that memory](Self::spare_len) back.
    pub fn drop_spare(&mut self) {
        self.connection.streams.drop_spare();
    }

    /// Requests that this machine has answered as not executed: beyond `max_streams` or a lease, while
    /// too many are given up, after a GOAWAY, or since they were not whole when the time to drain was
    /// over.
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

    /// Whether [`receive`](Self::receive) has something to tell, whatever its input: an event, or that
    /// the connection has failed meanwhile.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.connection.pending.is_empty() || self.connection.is_failure_untold
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.connection.failed.is_some() {
            return None;
        }
        let keepalive = self.connection.keepalive.deadline(self.connection.now);
        let drain = self.drain.map(|drain| drain.until.unwrap_or(self.connection.now));
        Some([drain, self.waits.next()].into_iter().flatten().fold(keepalive, Duration::min))
    }

    pub(super) fn note_window(&mut self) {
        self.plain_len_max = self.connection.plain_len_max().min(self.connection.window as usize);
    }
}
