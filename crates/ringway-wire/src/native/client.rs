//! The side that connects and opens calls.

use std::fmt;
use std::time::Duration;

use super::frame::Parts;
use super::link::{Link, NONE, Pending, Served, Stage, shortened};
use super::slots::{Found, NO_STREAM, Phase};
use super::{
    Body, Config, Flags, FrameKind, GoAwayCode, Gone, MetaWriter, Outgoing, Piece, RequestHead,
    Settings, StreamId, Violation,
};
use crate::limits::{NATIVE_CREDIT_MAX, NATIVE_INITIAL_CREDIT_MIN};

/// One connection to a server as a machine without I/O; see [`Server`](super::Server) for how it
/// is used.
///
/// Each call that [`open`](Self::open) starts ends in one [`ClientEvent::Response`], or by
/// [`cancel`](Self::cancel) without an event. When the connection dies, its calls are the caller's
/// to fail: [`was_accepted`](Self::was_accepted) tells which of them may have been executed.
#[derive(Debug)]
pub struct Client {
    pub(super) link: Link,
    /// Calls that may be in flight by the server's lease.
    pub(super) permits: usize,
    /// The server takes no more calls.
    pub(super) is_draining: bool,
    /// A call found no room since the last `Capacity`.
    pub(super) is_starved: bool,
    /// One bit for each method whose name went out.
    announced: Vec<u64>,
    /// Metadata is put together here.
    scratch: Vec<u8>,
    pub(super) plain_len_max: usize,
}

/// A call to be opened.
#[derive(Debug, Clone)]
pub struct Open<'a> {
    /// The caller's number for the method, from 1 on and dense, or 0 to send the name each time.
    pub method: u32,
    /// `package.Service/Method`; it is sent at the first use of its number.
    pub name: &'a str,
    /// How long the server may take, from the arrival of the request.
    pub timeout: Option<Duration>,
    /// How messages are encoded: 0 raw, 1 protobuf, 2 JSON, from 128 up by agreement.
    pub codec: u8,
    /// 0 for the first attempt, then the number of the retry or hedge.
    pub attempt: u8,
    /// 0 is normal; calls of higher values are shed first.
    pub priority: u8,
    /// Reply bytes that may come before they are taken; at least 65,536.
    pub initial_credit: u32,
    /// Further metadata, from a [`MetaWriter`].
    pub meta: &'a [u8],
    /// The first message.
    pub message: Option<Body<'a>>,
    /// No more messages follow.
    pub end: bool,
}

impl Default for Open<'_> {
    /// A raw call without name, time limit or message that stays open, with 64 KiB of credit.
    fn default() -> Self {
        Self {
            method: 0,
            name: "",
            timeout: None,
            codec: 0,
            attempt: 0,
            priority: 0,
            initial_credit: NATIVE_INITIAL_CREDIT_MIN,
            meta: &[],
            message: None,
            end: false,
        }
    }
}

/// Why a call cannot be opened on this connection now. It was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// As many calls are open as the server takes; [`ClientEvent::Capacity`] tells when fewer are.
    Full,
    /// The server's lease is used up; [`ClientEvent::Capacity`] tells when it is not.
    Leased,
    /// The server takes no more calls on this connection.
    Draining,
    /// The connection has failed.
    Closed,
    /// The metadata is longer than the server takes.
    TooLarge,
}

/// What has arrived from a server, or happened to a call.
#[derive(Debug)]
pub enum ClientEvent<'i> {
    /// The metadata that a server sends in front of a stream's first message.
    Initial {
        /// Its stream.
        stream: StreamId,
        /// For a [`MetaReader`](super::MetaReader).
        meta: Piece<'i>,
    },
    /// A message of a stream that goes on.
    Message {
        /// Its stream.
        stream: StreamId,
        /// The whole message.
        message: Piece<'i>,
    },
    /// The call has ended.
    Response {
        /// Its stream, whose slot is free again.
        stream: StreamId,
        /// 0 for success, else 1 to 16.
        status: u8,
        /// Trailers; [`Tag::Refused`](super::Tag::Refused) in them: it was not executed.
        meta: Piece<'i>,
        /// The reply to a unary call, or the last message of a stream.
        message: Option<Piece<'i>>,
    },
    /// [`Client::unsent`] of this stream was above
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK), and half of that has left.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// Calls can be opened again, after one could not.
    Capacity,
    /// The server takes no more calls on this connection.
    Leaving {
        /// A [`GoAwayCode`] as a number.
        code: u32,
        /// Milliseconds that open calls still have.
        drain_ms: u32,
        /// Requests that the server has taken; see [`Client::was_accepted`].
        accepted: u32,
        /// Why, in words of the server's.
        reason: Piece<'i>,
    },
}

impl Client {
    /// A connection that was made; preface and settings are ready to be sent.
    #[must_use]
    pub fn new(mut config: Config, now: Duration) -> Self {
        // No calls come this way, so nothing is announced about them.
        config.settings.max_streams = Settings::default().max_streams;
        config.settings.callbacks = false;
        let mut link = Link::new(config, now);
        link.greet();
        let plain_len_max = link.plain_len_max();
        Self {
            link,
            permits: usize::MAX,
            is_draining: false,
            is_starved: false,
            announced: Vec::new(),
            scratch: Vec::new(),
            plain_len_max,
        }
    }

    /// Takes frames off the front of `input` until one is an event, as
    /// [`Server::receive`](super::Server::receive) does.
    ///
    /// # Errors
    ///
    /// When the server broke the protocol. The same error comes again ever after;
    /// [`transmit`](Self::transmit) still gives the GOAWAY, then the connection is to be closed.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        self.link.hear(input, now);
        loop {
            if !self.link.is_plain() {
                match self.before_frames(input) {
                    Ok(Before::Frames) => {}
                    Ok(Before::Nothing) => return Ok(None),
                    Ok(Before::Event(event)) => return Ok(Some(event)),
                    Err(violation) => return Err(violation),
                }
            }
            let before = *input;
            let event = match self.link.splitter.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.on_frame(frame, before, input),
                Err(violation) => Err(violation),
            };
            match event {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(violation) => return Err(self.link.fail(violation)),
            }
        }
    }

    #[cold]
    fn before_frames<'i>(&mut self, input: &mut &'i [u8]) -> Result<Before<'i>, Violation> {
        if let Some(violation) = &self.link.failed {
            return Err(violation.clone());
        }
        match self.link.pending.pop_front() {
            Some(Pending::Writable(stream)) => {
                return Ok(Before::Event(ClientEvent::Writable { stream }));
            }
            Some(Pending::Capacity) => return Ok(Before::Event(ClientEvent::Capacity)),
            Some(Pending::Failed(..)) | None => {}
        }
        if self.link.stage == Stage::Preface {
            match self.link.take_preface(input) {
                Ok(None) => return Ok(Before::Nothing),
                Ok(Some(())) => {}
                Err(violation) => return Err(self.link.fail(violation)),
            }
        }
        Ok(Before::Frames)
    }

    /// Opens a call. Its slot is not used again before its RESPONSE has come.
    ///
    /// # Errors
    ///
    /// When this connection cannot take it now; nothing was sent.
    #[inline]
    pub fn open(&mut self, call: Open<'_>) -> Result<StreamId, OpenError> {
        if self.is_draining || self.link.failed.is_some() {
            return Err(if self.is_draining { OpenError::Draining } else { OpenError::Closed });
        }
        if self.link.slots.live() >= self.permits {
            self.is_starved = true;
            return Err(OpenError::Leased);
        }
        let needs_meta = !self.is_announced(call.method) | !call.meta.is_empty();
        let timeout_us = call.timeout.map_or(0, timeout_us);
        if needs_meta || timeout_us > u64::from(u32::MAX) {
            return self.open_with_meta(call, timeout_us);
        }
        self.open_as(call, timeout_us as u32, NONE, &[])
    }

    fn is_announced(&self, method: u32) -> bool {
        let word = self.announced.get((method / 64) as usize);
        word.is_some_and(|word| word & 1 << (method % 64) != 0)
    }

    #[cold]
    fn open_with_meta(
        &mut self,
        mut call: Open<'_>,
        timeout_us: u64,
    ) -> Result<StreamId, OpenError> {
        if call.method > self.link.peer.max_methods {
            call.method = 0;
        }
        let is_named = !self.is_announced(call.method);
        let mut meta = std::mem::take(&mut self.scratch);
        meta.clear();
        let mut writer = MetaWriter::new(&mut meta);
        if is_named {
            writer.method(call.name);
        }
        if timeout_us > u64::from(u32::MAX) {
            writer.timeout_us(timeout_us);
        }
        meta.extend_from_slice(call.meta);
        let opened = if meta.len() > self.link.peer.max_meta as usize {
            Err(OpenError::TooLarge)
        } else {
            let flags = if is_named { Flags::NAMED } else { NONE };
            let (method, timeout_us) = (call.method, timeout_us.min(u64::from(u32::MAX)) as u32);
            let opened = self.open_as(call, timeout_us, flags, &meta);
            self.note_announced(method, &opened);
            opened
        };
        self.scratch = meta;
        opened
    }

    /// The name is known to the server once its REQUEST is written: one that is queued could be
    /// overtaken.
    fn note_announced(&mut self, method: u32, opened: &Result<StreamId, OpenError>) {
        let Ok(stream) = opened else {
            return;
        };
        if method == 0 || !self.link.slots.get(stream.slot() as usize).is_sent {
            return;
        }
        let word = (method / 64) as usize;
        if self.announced.len() <= word {
            self.announced.resize(word + 1, 0);
        }
        self.announced[word] |= 1 << (method % 64);
    }

    #[inline]
    fn open_as(
        &mut self,
        call: Open<'_>,
        timeout_us: u32,
        flags: Flags,
        meta: &[u8],
    ) -> Result<StreamId, OpenError> {
        let initial_credit =
            call.initial_credit.clamp(NATIVE_INITIAL_CREDIT_MIN, NATIVE_CREDIT_MAX);
        let link = &mut self.link;
        let Some(stream) = link.slots.acquire(link.peer.max_streams, initial_credit) else {
            self.is_starved = true;
            return Err(OpenError::Full);
        };
        let head = RequestHead {
            method: call.method,
            timeout_us,
            codec: call.codec,
            compression: 0,
            attempt: call.attempt,
            priority: call.priority,
            initial_credit,
        };
        let head = head.encode();
        let flags = if call.end { flags | Flags::END } else { flags };
        let kind = FrameKind::Request;
        let frame = Parts { kind, flags, stream, aux: 0, head: &head, meta, payload: &[] };
        if let Some(body) = &call.message
            && call.end
            && link.is_direct(body)
        {
            link.outbox.put(&Parts { payload: body.as_ref(), ..frame });
            Self::note_sent(link, stream);
            return Ok(stream);
        }
        self.open_stream(frame, call.message);
        Ok(stream)
    }

    /// A REQUEST without a message, with more to follow, or too long to be written at once.
    fn open_stream(&mut self, frame: Parts<'_>, message: Option<Body<'_>>) {
        let link = &mut self.link;
        let stream = frame.stream;
        let index = stream.slot() as usize;
        let end = frame.flags.contains(Flags::END);
        if !end || message.is_some() {
            let (credit, window) = (link.peer.initial_credit, link.slots.at(index).reply_credit);
            let place = link.stream_at(index, credit, window);
            link.streams.at(place).send.has_ended = end;
            if let Some(body) = message {
                if link.send(place, frame, body) == super::link::Sent::Written {
                    Self::note_sent(link, stream);
                }
                return;
            }
        }
        link.outbox.put(&Parts { flags: frame.flags | Flags::NOMSG, ..frame });
        Self::note_sent(link, stream);
    }

    #[inline]
    fn note_sent(link: &mut Link, stream: StreamId) {
        let slot = link.slots.at(stream.slot() as usize);
        slot.is_sent = true;
        slot.number = link.requests;
        link.requests = link.requests.wrapping_add(1);
    }

    /// Sends a message of an open call; `end`: the last one. Messages beyond the server's credit
    /// wait here, however many: see [`unsent`](Self::unsent).
    ///
    /// # Errors
    ///
    /// [`Gone`] when the call has ended, or the last message was sent.
    #[inline]
    pub fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<(), Gone> {
        let place = self.sending_place(stream).ok_or(Gone)?;
        let link = &mut self.link;
        link.streams.at(place).send.has_ended = end;
        let flags = if end { Flags::END } else { NONE };
        let kind = FrameKind::Data;
        let frame = Parts { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        link.send(place, frame, message);
        Ok(())
    }

    /// Says that no more messages follow on an open call, if that was not said before.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(place) = self.sending_place(stream) else {
            return;
        };
        self.link.streams.at(place).send.has_ended = true;
        let (kind, flags) = (FrameKind::Data, Flags::END | Flags::NOMSG);
        let frame = Parts { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        self.link.send_empty(place, &frame);
    }

    #[inline]
    fn sending_place(&mut self, stream: StreamId) -> Option<u32> {
        let index = self.link.slots.find_open(stream)?;
        let place = self.link.slots.at(index).stream;
        let can_send = place != NO_STREAM
            && self.link.failed.is_none()
            && !self.link.streams.at(place).send.has_ended;
        can_send.then_some(place)
    }

    /// Gives a call up: no event of it comes any more. Its slot is free again when the server has
    /// answered. `code` is 1, cancelled, or 4, deadline exceeded; `reason` reaches the handler.
    pub fn cancel(&mut self, stream: StreamId, code: u8, reason: &str) {
        let link = &mut self.link;
        let Some(index) = link.slots.find_open(stream) else {
            return;
        };
        link.drop_stream(index);
        if !link.slots.at(index).is_sent {
            link.slots.release(index);
            self.note_room();
            return;
        }
        let parity = link.keepalive.reset();
        let slot = link.slots.at(index);
        (slot.phase, slot.reset_parity) = (Phase::Closing, parity);
        if link.failed.is_none() {
            let payload = shortened(reason).as_bytes();
            let (kind, aux) = (FrameKind::Rst, u32::from(code));
            link.outbox.put(&Parts { stream, ..Parts::control(kind, NONE, aux, payload) });
        }
    }

    /// Tells that the reader took one message out of its queue, so that the next one returns its
    /// credit (section 6). To be called once for each [`ClientEvent::Message`].
    #[inline]
    pub fn taken(&mut self, stream: StreamId) {
        self.link.taken(stream);
    }

    /// Bytes of a stream that wait for credit or for the socket. A writer should wait while this
    /// is above [`UNSENT_MARK`](crate::native::UNSENT_MARK); [`ClientEvent::Writable`] wakes it.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.link.unsent(stream)
    }

    /// Calls that may be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        if self.is_draining || self.link.failed.is_some() {
            return 0;
        }
        let most = self.permits.min(self.link.peer.max_streams as usize);
        most.saturating_sub(self.link.slots.live())
    }

    /// Calls that have begun and whose RESPONSE has not come, cancelled ones among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.link.slots.live()
    }

    /// Whether an open call may have been executed by a server that has gone after it had taken
    /// `accepted` requests, as its GOAWAY said. Without a GOAWAY, a call that was sent may have
    /// been executed.
    #[must_use]
    pub fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool {
        let Found::Live(index) = self.link.slots.find(stream) else {
            return false;
        };
        let slot = self.link.slots.get(index);
        // Numbers go round; those in flight are never half of all apart.
        slot.is_sent && accepted.wrapping_sub(slot.number).wrapping_sub(1) < 1 << 31
    }

    /// Announces that no more calls are opened, as before closing.
    pub fn go_away(&mut self, code: GoAwayCode, reason: &str) {
        if self.link.failed.is_none() && !self.is_draining {
            self.is_draining = true;
            self.link.put_go_away(code, Duration::ZERO, reason);
        }
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one small message.
    /// Messages are cut to fragments here, so what is not asked for can still be overtaken.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.link.transmit(budget, out, |link, stream, served| {
            if served == Served::Opened {
                Self::note_sent(link, stream);
            }
        });
    }

    /// Whether [`transmit`](Self::transmit) has something to give.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.link.outbox.is_empty()
    }

    /// Bytes written and not yet handed out, without those that wait in queues of streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.link.outbox.backlog()
    }

    /// Whether [`receive`](Self::receive) has an event to give, whatever its input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.link.pending.is_empty()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let is_live = self.link.failed.is_none();
        is_live.then(|| self.link.keepalive.deadline(self.link.now))
    }

    /// Does what is due: PING. Earlier calls than [`poll_timeout`](Self::poll_timeout) asks for
    /// do no harm.
    ///
    /// # Errors
    ///
    /// When the server is gone, as in [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.link.handle_timeout(now)
    }

    /// Remembers to tell that there is room, if somebody found none.
    #[inline]
    pub(super) fn note_room(&mut self) {
        if self.is_starved && self.capacity() > 0 {
            self.is_starved = false;
            self.link.pending.push_back(Pending::Capacity);
        }
    }
}

/// What comes before the next frame.
enum Before<'i> {
    Frames,
    Nothing,
    Event(ClientEvent<'i>),
}

/// Microseconds, at least one: none would mean no limit.
#[inline]
fn timeout_us(timeout: Duration) -> u64 {
    let whole = timeout.as_secs().saturating_mul(1_000_000);
    whole.saturating_add(u64::from(timeout.subsec_micros())).max(1)
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server takes no more calls at a time on this connection",
            Self::Leased => "the server's lease on this connection is used up",
            Self::Draining => "the server takes no more calls on this connection",
            Self::Closed => "the connection has failed",
            Self::TooLarge => "the metadata is longer than the server takes",
        })
    }
}

impl std::error::Error for OpenError {}
