//! The client side of a connection, which opens calls.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::frame::OutgoingFrame;
use super::native_connection::{Before, NONE, NativeConnection, Pending, Stage, shortened};
use super::slots::{Found, NO_STREAM, Phase};
use super::transmit::Served;
use super::{
    Body, Config, Flags, FrameKind, GoAwayCode, Gone, Outgoing, Piece, Settings, StreamId,
    Violation,
};
use crate::limits::NATIVE_RESET_RATE;
use crate::rates::Allowance;

/// The status of an RST that was held back, whose own status and reason are not kept.
const CANCELLED: u8 = 1;

/// The client side of one connection, as a state machine without I/O; [`Server`](super::Server)
/// shows how to drive it.
///
/// Each call that [`open`](Self::open) starts ends in one [`ClientEvent::Response`] or
/// [`ClientEvent::Failed`], or by [`cancel`](Self::cancel) without an event. When the connection dies, the caller fails its calls:
/// [`was_accepted`](Self::was_accepted) tells which of them may have been executed.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: NativeConnection,
    /// Calls that the server's lease allows in flight.
    pub(super) permits: usize,
    /// How often the lease has shrunk.
    pub(super) lease_cuts: u32,
    /// The server takes no more calls.
    pub(super) is_draining: bool,
    /// A call could not be opened since the last `Capacity` event.
    pub(super) is_starved: bool,
    /// Number of requests whose last byte was handed out for sending.
    left: u64,
    /// Rate limit for RSTs of calls cancelled before their requests were handed out.
    sudden: Allowance<1>,
    /// Streams whose RST waits for that rate limit.
    held_resets: VecDeque<StreamId>,
    /// A bit set of the methods whose names were sent.
    pub(super) announced: Vec<u64>,
    /// Buffer in which metadata is assembled.
    pub(super) scratch: Vec<u8>,
    pub(super) plain_len_max: usize,
}

/// Something that arrived from the server, or that happened to a call.
#[derive(Debug)]
pub enum ClientEvent<'i> {
    /// A stream's initial metadata, which the server sends before the first message.
    Initial {
        /// The stream.
        stream: StreamId,
        /// The metadata; read it with a [`MetaReader`](super::MetaReader).
        meta: Piece<'i>,
    },
    /// A message of a stream that stays open.
    Message {
        /// The stream.
        stream: StreamId,
        /// The whole message.
        message: Piece<'i>,
    },
    /// The call has ended.
    Response {
        /// The stream; its slot is free again.
        stream: StreamId,
        /// 0 for success, or a status of 1 to 16.
        status: u8,
        /// The trailers; if they contain [`Tag::Refused`](super::Tag::Refused), the call was not
        /// executed.
        meta: Piece<'i>,
        /// The reply to a unary call, or the last message of a stream.
        message: Option<Piece<'i>>,
    },
    /// The call has ended without a status of its server's.
    Failed {
        /// The stream; its slot is free again.
        stream: StreamId,
        /// A status of 1 to 16.
        status: u8,
        /// Who decided that.
        by: FailedBy,
        /// The reason, as text.
        text: Cow<'static, str>,
    },
    /// The stream [may send](Client::has_room) again.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// Calls can be opened again after one could not be.
    Capacity,
    /// The server sent GOAWAY: it takes no more calls on this connection.
    Leaving {
        /// The GOAWAY code; see [`GoAwayCode`].
        code: u32,
        /// Milliseconds that open calls have left.
        drain_ms: u32,
        /// Number of requests that the server has accepted, more than were sent if it does not know
        /// yet; see [`Client::was_accepted`].
        accepted: u32,
        /// The server's reason, as text.
        reason: Piece<'i>,
    },
}

/// Who has ended a call without a status of its server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedBy {
    /// This client: a limit of its own, or a server that breaks the protocol.
    Client,
    /// The server, or something before it.
    Server,
}

impl Client {
    /// Creates the client side of an established connection, with preface and settings ready to
    /// send.
    #[must_use]
    pub fn new(mut config: Config, now: Duration) -> Self {
        // A server opens no calls, so the limits on them are not announced.
        config.settings.max_streams = Settings::default().max_streams;
        config.settings.callbacks = false;
        let mut connection = NativeConnection::new(config, now);
        connection.greet();
        let plain_len_max = connection.plain_len_max();
        Self {
            connection,
            permits: usize::MAX,
            lease_cuts: 0,
            is_draining: false,
            is_starved: false,
            left: 0,
            sudden: Allowance::new(NATIVE_RESET_RATE, now),
            held_resets: VecDeque::new(),
            announced: Vec::new(),
            scratch: Vec::new(),
            plain_len_max,
        }
    }

    /// Decodes frames from the front of `input` until one yields an event, as
    /// [`Server::receive`](super::Server::receive) does.
    ///
    /// # Errors
    ///
    /// Fails when the server broke the protocol, and with the same error at every later call.
    /// [`transmit`](Self::transmit) still hands out the GOAWAY; close the connection after that.
    #[inline]
    pub fn receive<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Duration,
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
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
    ) -> Result<Option<ClientEvent<'i>>, Violation> {
        loop {
            if !self.connection.is_plain() {
                match self.before_frames(input) {
                    Ok(Before::Frames) => {}
                    Ok(Before::Nothing) => return Ok(None),
                    Ok(Before::Event(event)) => return Ok(Some(event)),
                    Err(violation) => return Err(violation),
                }
            }
            let before = *input;
            let event = match self.connection.frame_decoder.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.on_frame(frame, before, input),
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
    ) -> Result<Before<ClientEvent<'i>>, Violation> {
        if let Some(violation) = &self.connection.failed {
            return Err(violation.clone());
        }
        match self.connection.pending.pop_front() {
            Some(Pending::Writable(stream)) => {
                return Ok(Before::Event(ClientEvent::Writable { stream }));
            }
            Some(Pending::Capacity) => return Ok(Before::Event(ClientEvent::Capacity)),
            Some(Pending::Failed(..)) | None => {}
        }
        if self.connection.stage == Stage::Preface {
            match self.connection.take_preface(input) {
                Ok(None) => return Ok(Before::Nothing),
                Ok(Some(())) => {}
                Err(violation) => return Err(self.connection.fail(violation)),
            }
        }
        Ok(Before::Frames)
    }

    /// Sends a message of an open call; `end` marks the last one. Messages beyond the server's
    /// credit are queued without limit: `false` asks the caller to [wait](Self::has_room) before
    /// the next one.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the call has ended or the last message was already sent.
    #[inline]
    pub fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<bool, Gone> {
        let stream_index = self.sending_stream(stream).ok_or(Gone)?;
        let connection = &mut self.connection;
        connection.streams.at(stream_index).send.has_ended = end;
        let flags = if end { Flags::END } else { NONE };
        let kind = FrameKind::Data;
        let frame =
            OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        connection.send(stream_index, frame, message);
        Ok(!connection.streams.get(stream_index).send.wants_writable)
    }

    /// Half-closes an open call: no more messages follow. Does nothing if that was already said.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(stream_index) = self.sending_stream(stream) else {
            return;
        };
        self.connection.streams.at(stream_index).send.has_ended = true;
        let (kind, flags) = (FrameKind::Data, Flags::END | Flags::NOMSG);
        let frame =
            OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        self.connection.send_empty(stream_index, &frame);
    }

    #[inline]
    fn sending_stream(&mut self, stream: StreamId) -> Option<u32> {
        let index = self.connection.slots.find_open(stream)?;
        let stream_index = self.connection.slots.at(index).stream;
        let can_send = stream_index != NO_STREAM
            && self.connection.failed.is_none()
            && !self.connection.streams.at(stream_index).send.has_ended;
        can_send.then_some(stream_index)
    }

    /// Cancels a call, which yields no more events. Its slot becomes free when the server has
    /// answered. `code` is 1, cancelled, or 4, deadline exceeded; `reason` reaches the handler.
    ///
    /// If very many calls are cancelled before their requests were handed out, some RSTs are
    /// delayed and lose their reasons.
    pub fn cancel(&mut self, stream: StreamId, code: u8, reason: &str) {
        let connection = &mut self.connection;
        let Some(index) = connection.slots.find_open(stream) else {
            return;
        };
        connection.drop_stream(index);
        if !connection.slots.at(index).is_sent {
            connection.slots.release_unsent(index);
            self.note_room();
            return;
        }
        let parity = connection.keepalive.reset();
        let slot = connection.slots.at(index);
        (slot.phase, slot.reset_parity) = (Phase::Closing, parity);
        if connection.failed.is_some() {
            return;
        }
        // A server tolerates only a limited number of RSTs that arrive together with their
        // REQUESTs.
        let is_sudden = slot.number >= self.left;
        if is_sudden && !self.sudden.take(NATIVE_RESET_RATE, connection.now, connection.requests) {
            self.held_resets.push_back(stream);
            return;
        }
        self.put_reset(stream, code, reason);
    }

    fn put_reset(&mut self, stream: StreamId, code: u8, reason: &str) {
        let payload = shortened(reason).as_bytes();
        let (kind, aux) = (FrameKind::Rst, u32::from(code));
        self.connection
            .outbox
            .put(&OutgoingFrame { stream, ..OutgoingFrame::control(kind, NONE, aux, payload) });
    }

    /// Sends the RSTs that were held back, except those whose calls have ended meanwhile.
    fn release_resets(&mut self) {
        while let Some(&stream) = self.held_resets.front() {
            if let Found::Live(index) = self.connection.slots.find(stream) {
                let is_sudden = self.connection.slots.get(index).number >= self.left;
                if is_sudden
                    && !self.sudden.take(
                        NATIVE_RESET_RATE,
                        self.connection.now,
                        self.connection.requests,
                    )
                {
                    return;
                }
                self.put_reset(stream, CANCELLED, "");
            }
            self.held_resets.pop_front();
        }
    }

    /// Reports that the reader took `messages` from its queue, so that credit for them is returned
    /// (section 6). Report each [`ClientEvent::Message`] exactly once.
    #[inline]
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        self.connection.taken(stream, messages);
    }

    /// Whether the stream's writer may send now. It may not while more than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) bytes of the stream, or many bytes of all
    /// streams, are unsent; [`ClientEvent::Writable`] tells when it may again.
    #[inline]
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.connection.has_room(stream)
    }

    /// Bytes of a stream that wait for credit or for their turn to be sent.
    #[must_use]
    pub fn unsent(&self, stream: StreamId) -> usize {
        self.connection.unsent(stream)
    }

    /// How many calls can be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        if self.is_draining || self.connection.failed.is_some() {
            return 0;
        }
        let most = self.permits.min(self.connection.peer.max_streams as usize);
        most.saturating_sub(self.connection.slots.live())
    }

    /// Whether the server's lease allows fewer calls than its settings do: it has as much to do as it can.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.permits < self.connection.peer.max_streams as usize
    }

    /// How often the server's lease has shrunk, wrapping. A call opened before the last reduction
    /// may have been refused because the two crossed on the wire (section 8).
    #[must_use]
    pub fn lease_cuts(&self) -> u32 {
        self.lease_cuts
    }

    /// Calls whose RESPONSE has not arrived, including cancelled ones.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.connection.slots.live()
    }

    /// Whether the server may have executed an open call before it left, if it had accepted
    /// `accepted` requests, as its GOAWAY said. Without a GOAWAY, every call that was sent may have
    /// been executed.
    #[must_use]
    pub fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool {
        let Found::Live(index) = self.connection.slots.find(stream) else {
            return false;
        };
        let slot = self.connection.slots.get(index);
        // The wire carries the low half of a count that both ends keep. A count ahead of what was
        // sent means that the server does not know yet, so all may have been executed.
        let untaken = (self.connection.requests as u32).wrapping_sub(accepted);
        let is_ahead = untaken > u32::MAX / 2;
        let taken = self.connection.requests.checked_sub(u64::from(untaken));
        slot.is_sent && (is_ahead || taken.is_none_or(|taken| slot.number < taken))
    }

    /// Sends GOAWAY: this client opens no more calls. Call it before closing.
    pub fn go_away(&mut self, code: GoAwayCode, reason: &str) {
        if self.connection.failed.is_none() && !self.is_draining {
            self.is_draining = true;
            let requests = self.connection.requests as u32;
            self.connection.put_go_away(code, requests, Duration::ZERO, reason);
        }
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one small message.
    /// Messages are fragmented here, so those not handed out yet can still be overtaken.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.connection.transmit(budget, out, |connection, stream, served| {
            if served == Served::Opened {
                Self::note_overtaking(connection, stream);
            }
        });
        if self.connection.outbox.backlog() == 0 {
            self.left = self.connection.requests;
        }
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

    /// Bytes of encoded frames not handed out yet, without the messages queued by streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.connection.outbox.backlog()
    }

    /// Bytes buffered for an incomplete frame and incomplete messages, as
    /// [`Server::incomplete_len`](super::Server::incomplete_len) counts them.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.connection.incomplete()
    }

    /// Whether [`receive`](Self::receive) has an event even without input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.connection.pending.is_empty()
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout); `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.connection.failed.is_some() {
            return None;
        }
        let keepalive = self.connection.keepalive.deadline(self.connection.now);
        let held = (!self.held_resets.is_empty())
            .then(|| self.sudden.next(NATIVE_RESET_RATE, self.connection.now));
        Some(held.map_or(keepalive, |held| held.min(keepalive)))
    }

    /// Does what is due by now: sends PINGs and RSTs that were held back. Calling it before
    /// [`poll_timeout`](Self::poll_timeout) says is harmless.
    ///
    /// # Errors
    ///
    /// Fails when the server no longer answers; the error repeats as with
    /// [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.connection.handle_timeout(now)?;
        self.release_resets();
        Ok(())
    }

    /// Queues a `Capacity` event if a call could not be opened before and one can be now.
    #[inline]
    pub(super) fn note_room(&mut self) {
        if self.is_starved && self.capacity() > 0 {
            self.is_starved = false;
            self.connection.tell(Pending::Capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{Body, Open};

    #[test]
    fn the_count_of_accepted_requests_survives_wrapping() {
        let open = |client: &mut Client| {
            let call = Open { message: Some(Body::Copy(b"x")), end: true, ..Open::default() };
            client.open(call).expect("room")
        };
        for others in [0, 1 << 31, (1 << 32) - 3, 1 << 32, 3 << 33] {
            let mut client = Client::new(Config::default(), Duration::ZERO);
            let oldest = open(&mut client);
            client.connection.requests += others; // which have ended
            let calls = [open(&mut client), open(&mut client)];
            let taken = |accepted: u64| {
                let accepted = accepted as u32; // as it goes on the wire
                [oldest, calls[0], calls[1]].map(|call| client.was_accepted(call, accepted))
            };
            let sent = others + 3;
            assert_eq!(taken(sent), [true, true, true], "{others}");
            assert_eq!(taken(sent - 1), [true, true, false], "{others}");
            assert_eq!(taken(sent - 2), [true, false, false], "{others}");
            if sent < u64::from(u32::MAX) {
                assert_eq!(
                    taken(sent + 1),
                    [true; 3],
                    "a count above what was sent is not believed"
                );
            }
        }
    }
}
