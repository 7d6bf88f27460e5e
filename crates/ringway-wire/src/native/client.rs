//! The side that connects and opens calls.

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

/// A held RST says no more than that.
const CANCELLED: u8 = 1;

/// One connection to a server as a machine without I/O; see [`Server`](super::Server) for how it
/// is used.
///
/// Each call that [`open`](Self::open) starts ends in one [`ClientEvent::Response`], or by
/// [`cancel`](Self::cancel) without an event. When the connection dies, its calls are the caller's
/// to fail: [`was_accepted`](Self::was_accepted) tells which of them may have been executed.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: NativeConnection,
    /// Calls that may be in flight by the server's lease.
    pub(super) permits: usize,
    /// How often that has become less.
    pub(super) lease_cuts: u32,
    /// The server takes no more calls.
    pub(super) is_draining: bool,
    /// A call found no room since the last `Capacity`.
    pub(super) is_starved: bool,
    /// Requests whose last byte was handed out.
    left: u64,
    /// For calls that are given up before that, and those whose RST waits for one.
    sudden: Allowance,
    held_resets: VecDeque<StreamId>,
    /// One bit for each method whose name went out.
    pub(super) announced: Vec<u64>,
    /// Metadata is put together here.
    pub(super) scratch: Vec<u8>,
    pub(super) plain_len_max: usize,
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
    /// The stream [has room](Client::has_room) again.
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
            sudden: Allowance::new(NATIVE_RESET_RATE, 1, now),
            held_resets: VecDeque::new(),
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

    /// Sends a message of an open call; `end`: the last one. Messages beyond the server's credit
    /// wait here, however many: `false` says that the next one [should wait](Self::has_room).
    ///
    /// # Errors
    ///
    /// [`Gone`] when the call has ended, or the last message was sent.
    #[inline]
    pub fn send(&mut self, stream: StreamId, message: Body<'_>, end: bool) -> Result<bool, Gone> {
        let place = self.sending_place(stream).ok_or(Gone)?;
        let connection = &mut self.connection;
        connection.streams.at(place).send.has_ended = end;
        let flags = if end { Flags::END } else { NONE };
        let kind = FrameKind::Data;
        let frame =
            OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        connection.send(place, frame, message);
        Ok(!connection.streams.get(place).send.wants_writable)
    }

    /// Says that no more messages follow on an open call, if that was not said before.
    pub fn finish(&mut self, stream: StreamId) {
        let Some(place) = self.sending_place(stream) else {
            return;
        };
        self.connection.streams.at(place).send.has_ended = true;
        let (kind, flags) = (FrameKind::Data, Flags::END | Flags::NOMSG);
        let frame =
            OutgoingFrame { kind, flags, stream, aux: 0, head: &[], meta: &[], payload: &[] };
        self.connection.send_empty(place, &frame);
    }

    #[inline]
    fn sending_place(&mut self, stream: StreamId) -> Option<u32> {
        let index = self.connection.slots.find_open(stream)?;
        let place = self.connection.slots.at(index).stream;
        let can_send = place != NO_STREAM
            && self.connection.failed.is_none()
            && !self.connection.streams.at(place).send.has_ended;
        can_send.then_some(place)
    }

    /// Gives a call up: no event of it comes any more. Its slot is free again when the server has
    /// answered. `code` is 1, cancelled, or 4, deadline exceeded; `reason` reaches the handler.
    ///
    /// Where very many calls are given up before they have been handed out, the server is told of some
    /// a little later, and without their reasons.
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
        // A server bears only so many RSTs that come with their REQUESTs.
        let is_sudden = slot.number >= self.left;
        if is_sudden && !self.sudden.take(connection.now, connection.requests) {
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

    /// Sends the RSTs that were held back, as far as their calls have not ended meanwhile.
    fn release_resets(&mut self) {
        while let Some(&stream) = self.held_resets.front() {
            if let Found::Live(index) = self.connection.slots.find(stream) {
                let is_sudden = self.connection.slots.get(index).number >= self.left;
                if is_sudden && !self.sudden.take(self.connection.now, self.connection.requests) {
                    return;
                }
                self.put_reset(stream, CANCELLED, "");
            }
            self.held_resets.pop_front();
        }
    }

    /// Tells that the reader took `messages` out of its queue, so that those behind them return
    /// their credit (section 6). Each [`ClientEvent::Message`] is to be told once.
    #[inline]
    pub fn taken(&mut self, stream: StreamId, messages: usize) {
        self.connection.taken(stream, messages);
    }

    /// Whether a writer may send at once. If not, because more of its stream than
    /// [`UNSENT_MARK`](crate::native::UNSENT_MARK) waits or because much of all streams does,
    /// [`ClientEvent::Writable`] wakes it.
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

    /// Calls that may be opened now.
    #[must_use]
    pub fn capacity(&self) -> usize {
        if self.is_draining || self.connection.failed.is_some() {
            return 0;
        }
        let most = self.permits.min(self.connection.peer.max_streams as usize);
        most.saturating_sub(self.connection.slots.live())
    }

    /// How often the server's lease has become smaller, going round. A call that was opened before
    /// the last time may have been refused because it crossed that on its way (section 8).
    #[must_use]
    pub fn lease_cuts(&self) -> u32 {
        self.lease_cuts
    }

    /// Calls that have begun and whose RESPONSE has not come, cancelled ones among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.connection.slots.live()
    }

    /// Whether an open call may have been executed by a server that has gone after it had taken
    /// `accepted` requests, as its GOAWAY said. Without a GOAWAY, a call that was sent may have
    /// been executed.
    #[must_use]
    pub fn was_accepted(&self, stream: StreamId, accepted: u32) -> bool {
        let Found::Live(index) = self.connection.slots.find(stream) else {
            return false;
        };
        let slot = self.connection.slots.get(index);
        // The wire has the low half of what both ends count. A server that has taken more than was
        // sent is not to be believed, so all may have been executed.
        let untaken = (self.connection.requests as u32).wrapping_sub(accepted);
        let taken = self.connection.requests.checked_sub(u64::from(untaken));
        slot.is_sent && taken.is_none_or(|taken| slot.number < taken)
    }

    /// Announces that no more calls are opened, as before closing.
    pub fn go_away(&mut self, code: GoAwayCode, reason: &str) {
        if self.connection.failed.is_none() && !self.is_draining {
            self.is_draining = true;
            self.connection.put_go_away(code, Duration::ZERO, reason);
        }
    }

    /// Hands out bytes to send, in order: about `budget`, exceeded by less than one small message.
    /// Messages are cut to fragments here, so what is not asked for can still be overtaken.
    #[inline]
    pub fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        self.connection.transmit(budget, out, |connection, stream, served| {
            if served == Served::Opened {
                Self::note_sent(connection, stream);
            }
        });
        if self.connection.outbox.backlog() == 0 {
            self.left = self.connection.requests;
        }
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

    /// Bytes written and not yet handed out, without those that wait in queues of streams.
    #[inline]
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.connection.outbox.backlog()
    }

    /// Bytes kept of a frame and of messages that are not whole, as at the
    /// [server](super::Server::incomplete_len).
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.connection.incomplete()
    }

    /// Whether [`receive`](Self::receive) has an event to give, whatever its input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.connection.pending.is_empty()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest; `None` after a failure.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.connection.failed.is_some() {
            return None;
        }
        let keepalive = self.connection.keepalive.deadline(self.connection.now);
        let held = (!self.held_resets.is_empty()).then(|| self.sudden.next());
        Some(held.map_or(keepalive, |held| held.min(keepalive)))
    }

    /// Does what is due: PING, and RST that was held back. Earlier calls than [`poll_timeout`](Self::poll_timeout) asks for
    /// do no harm.
    ///
    /// # Errors
    ///
    /// When the server is gone, as in [`receive`](Self::receive).
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        self.connection.handle_timeout(now)?;
        self.release_resets();
        Ok(())
    }

    /// Remembers to tell that there is room, if somebody found none.
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
    fn what_was_accepted_is_known_however_many_calls_came_since() {
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
                assert_eq!(taken(sent + 1), [true; 3], "more than was sent is not to be believed");
            }
        }
    }
}
