//! State and behaviour that both ends of a connection share: input, output, calls, streams and
//! timers.

use std::collections::VecDeque;
use std::time::Duration;

use super::auto_tune::AutoTune;
use super::control::ArrivingPreface;
use super::frame::{OutgoingFrame, cost};
use super::frame_decoder::FrameDecoder;
use super::keepalive::{Due, Keepalive};
use super::outbox::Outbox;
use super::receive_side::{Assembled, IncomingFragment};
use super::slots::{NO_STREAM, Slots};
use super::streams::Streams;
use super::too_large::TooLarge;
use super::{
    Config, Flags, FrameKind, GoAway, GoAwayCode, Header, Piece, Settings, StreamId, Violation,
};
use crate::limits::{
    NATIVE_ANSWERS_MAX, NATIVE_ASSEMBLY_MAX, NATIVE_IDLE_RATE, NATIVE_PING_RATE, NATIVE_REASON_MAX,
    NATIVE_REQUEST_HEAD_MAX, NATIVE_SETTINGS_RATE,
};
use crate::rates::moved;
use crate::rates::{Allowance, Bucket};
use crate::reading_clock::ReadingClock;

/// The stage of a connection's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Preface,
    Settings,
    Open,
}

/// An event that the caller gets at its next `receive`, before any input is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    Writable(StreamId),
    Failed(StreamId, u8),
    Capacity,
}

/// The step to take before the next frame is read.
pub(super) enum Before<Event> {
    /// Read frames.
    Frames,
    /// Return to the caller without an event.
    Nothing,
    /// Return this event to the caller first.
    Event(Event),
}

/// The part of a connection that client and server share.
#[derive(Debug)]
pub(super) struct NativeConnection {
    pub(super) config: Config,
    /// The settings of the peer.
    pub(super) peer: Settings,
    pub(super) stage: Stage,
    /// Whether our preface is written; nothing may be sent before it.
    pub(super) has_greeted: bool,
    pub(super) failed: Option<Violation>,
    /// Whether the caller has not been told of the failure yet.
    pub(super) is_failure_untold: bool,
    pub(super) frame_decoder: FrameDecoder,
    /// The part of the peer's preface that has arrived.
    pub(super) preface: ArrivingPreface,
    pub(super) outbox: Outbox,
    pub(super) slots: Slots,
    pub(super) streams: Streams,
    pub(super) pending: VecDeque<Pending>,
    /// Streams that wrote while too much output was waiting; their writers wait until it has left.
    pub(super) backpressured: Vec<StreamId>,
    pub(super) keepalive: Keepalive,
    /// The time by which incomplete requests are late.
    pub(super) reading: ReadingClock,
    pub(super) pings: Bucket,
    pub(super) settings_frames: Bucket,
    /// Rate limit for frames without content.
    idle: Allowance<4>,
    /// The time passed in by the latest call that had one.
    pub(super) now: Duration,
    /// Number of requests in wire order: received by a server, sent by a client.
    pub(super) requests: u64,
    /// Credit of streams that the peer opens, as it knows it since its last ACK.
    pub(super) window: u32,
    /// The configured initial credit.
    pub(super) initial_credit: u32,
    /// SETTINGS that the peer has not acknowledged: the initial credit in them, and when they were
    /// sent.
    pub(super) unacknowledged: VecDeque<(u32, Duration)>,
    pub(super) auto_tune: AutoTune,
}

impl NativeConnection {
    pub(super) fn new(config: Config, now: Duration) -> Self {
        Self {
            peer: Settings::default(),
            stage: Stage::Preface,
            has_greeted: false,
            failed: None,
            is_failure_untold: false,
            frame_decoder: FrameDecoder::new(config.settings.max_payload),
            preface: ArrivingPreface::default(),
            outbox: Outbox::default(),
            slots: Slots::default(),
            streams: Streams::default(),
            pending: VecDeque::new(),
            backpressured: Vec::new(),
            keepalive: Keepalive::new(&config, now),
            reading: ReadingClock::default(),
            pings: Bucket::new(NATIVE_PING_RATE, now),
            settings_frames: Bucket::new(NATIVE_SETTINGS_RATE, now),
            idle: Allowance::new(NATIVE_IDLE_RATE, now),
            now,
            requests: 0,
            window: Settings::default().initial_credit,
            initial_credit: config.settings.initial_credit,
            unacknowledged: VecDeque::new(),
            auto_tune: AutoTune::new(&config),
            config,
        }
    }

    /// Records the time, and whether bytes arrived.
    #[inline]
    pub(super) fn hear(&mut self, input: &[u8], now: Duration) {
        self.now = now;
        if !input.is_empty() {
            self.keepalive.hear(now);
        }
    }

    /// Whether the connection is open with no failure and no event to report, so that frames can be
    /// read at once.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.stage == Stage::Open && self.failed.is_none() && self.pending.is_empty()
    }

    /// Fails the connection because of what the peer did: streams and their contents are dropped,
    /// no further events are reported, and GOAWAY is the last frame.
    #[cold]
    pub(super) fn fail(&mut self, violation: Violation) -> Violation {
        if self.failed.is_none() {
            self.outbox.drop_streams();
            self.streams.drop_contents();
            self.frame_decoder.drop_contents();
            self.pending = VecDeque::new();
            self.backpressured = Vec::new();
            match violation {
                // No GOAWAY for a peer that speaks another protocol, or that has left itself.
                Violation::NotNative => {}
                Violation::PeerLeft { .. } => self.drop_written(),
                _ if self.has_greeted => {
                    let (code, requests) = (violation.code(), self.requests as u32);
                    self.put_go_away(code, requests, Duration::ZERO, &violation.to_string());
                }
                _ => {}
            }
            self.failed = Some(violation.clone());
        }
        violation
    }

    fn drop_written(&mut self) {
        self.outbox.drop_written(&mut self.streams.discarded);
    }

    /// Discards all unsent output because the connection is lost.
    pub(super) fn discard_output(&mut self) {
        self.outbox.drop_streams();
        self.streams.drop_contents();
        self.drop_written();
    }

    /// Queues an event for the caller's next `receive`. After a failure only the failure is
    /// reported, so that a caller which waits for something else finds out.
    pub(super) fn tell(&mut self, pending: Pending) {
        if self.failed.is_none() {
            self.pending.push_back(pending);
        }
    }

    pub(super) fn put_go_away(
        &mut self,
        code: GoAwayCode,
        requests: u32,
        drain: Duration,
        reason: &str,
    ) {
        let drain_ms = u32::try_from(drain.as_millis()).unwrap_or(u32::MAX);
        let go_away = GoAway { code: code.code(), drain_ms, reason: shortened(reason).as_bytes() };
        let mut body = Vec::new();
        go_away.encode(&mut body);
        let frame = OutgoingFrame::control(FrameKind::GoAway, NONE, requests, &body);
        self.outbox.put(&frame);
    }

    /// Counts a frame without content.
    ///
    /// # Errors
    ///
    /// Fails when there are too many of them.
    pub(super) fn bear(&mut self, kind: FrameKind) -> Result<(), Violation> {
        match self.idle.take(NATIVE_IDLE_RATE, self.now, self.requests) {
            true => Ok(()),
            false => Err(Violation::Flood { kind }),
        }
    }

    /// Counts a frame for a call that has ended. Late DATA is free, since its credit bounds it.
    ///
    /// # Errors
    ///
    /// Fails when there are too many frames of the other kinds.
    pub(super) fn bear_late(&mut self, kind: FrameKind) -> Result<(), Violation> {
        if kind == FrameKind::Data { Ok(()) } else { self.bear(kind) }
    }

    /// Sends a frame that the peer has asked for.
    ///
    /// # Errors
    ///
    /// Fails when the peer asks for many such frames and does not read them.
    pub(super) fn answer(&mut self, frame: &OutgoingFrame<'_>) -> Result<(), Violation> {
        if self.outbox.put_answer(frame) > NATIVE_ANSWERS_MAX {
            return Err(Violation::Flood { kind: frame.kind });
        }
        Ok(())
    }

    /// Checks that a frame uses no reserved feature: compression and attachments are never announced,
    /// so no peer may use them.
    ///
    /// # Errors
    ///
    /// Fails when it does.
    pub(super) fn check_reserved(header: &Header) -> Result<(), Violation> {
        let Header { kind, flags, .. } = *header;
        let is_known = !matches!(kind, FrameKind::Unknown(_));
        if is_known && flags.intersects(Flags::COMPRESSED | Flags::RAW) {
            return Err(Violation::UnexpectedFlags { kind, flags });
        }
        Ok(())
    }

    /// The stream of the call in slot `index`; creates it if there is none, with `credit` to send
    /// and `window` to receive.
    #[inline]
    pub(super) fn stream_at(&mut self, index: usize, credit: u32, window: u32) -> u32 {
        match self.slots.get(index).stream {
            NO_STREAM => self.new_stream(index, credit, window),
            stream_index => stream_index,
        }
    }

    /// The stream of the call in slot `index`, for the server's reply; creates it if there is none.
    #[inline]
    pub(super) fn reply_stream(&mut self, index: usize) -> u32 {
        match self.slots.get(index).stream {
            NO_STREAM => self.open_reply_stream(index),
            stream_index => stream_index,
        }
    }

    #[cold]
    fn open_reply_stream(&mut self, index: usize) -> u32 {
        let slot = *self.slots.get(index);
        let stream_index = self.new_stream(index, slot.reply_credit, self.window);
        self.note_time(stream_index, slot.timeout_us);
        stream_index
    }

    /// Sets the deadline of a call that starts now.
    pub(super) fn note_time(&mut self, stream_index: u32, timeout_us: u32) {
        let touched = self.reading.at(self.now);
        let stream = self.streams.at(stream_index);
        stream.touched = touched;
        // A longer timeout is in the metadata; the field then has its largest value.
        stream.until = match timeout_us {
            0 | u32::MAX => Duration::MAX,
            timeout_us => self.now.saturating_add(Duration::from_micros(timeout_us.into())),
        };
    }

    fn new_stream(&mut self, index: usize, credit: u32, window: u32) -> u32 {
        let id = self.slots.id(index);
        let stream = self.streams.open(id, credit, window);
        self.slots.at(index).stream = stream;
        stream
    }

    /// Takes a fragment of a message, and returns credit for it when that is due.
    ///
    /// # Errors
    ///
    /// Fails when the peer must not send this fragment.
    pub(super) fn fragment<'i>(
        &mut self,
        stream_index: u32,
        header: &Header,
        payload: Piece<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let settings = &self.config.settings;
        if payload.len() > settings.max_payload as usize {
            let (len, max) = (payload.len() as u32, settings.max_payload);
            return Err(Violation::FrameTooLarge { len, max });
        }
        let has_more = header.flags.contains(Flags::MORE);
        let announced = if has_more { header.aux } else { 0 };
        let (stream, message_max) = (header.stream, settings.max_message);
        let fragment = IncomingFragment { stream, payload, has_more, announced, message_max };
        let read_until = self.reading.at(self.now);
        let stream = self.streams.at(stream_index);
        stream.touched = moved(stream.touched, fragment.payload.len(), read_until);
        if has_more && stream.receive.growth(&fragment) > self.assembly_room() {
            return Ok(Assembled::TooLarge(self.too_large(announced)));
        }
        let assembled = self.streams.fragment(stream_index, fragment)?;
        if !header.flags.contains(Flags::END) {
            self.return_credit(stream_index);
        }
        Ok(assembled)
    }

    /// The reason why a message is rejected that announced this length (0 if none) or found no
    /// room.
    #[cold]
    fn too_large(&self, announced: u32) -> TooLarge {
        let max = self.config.settings.max_message;
        match announced > max {
            true => TooLarge::Message { len: announced as usize, max },
            false => TooLarge::Together,
        }
    }

    /// Bytes by which all incomplete messages together may grow. The limit always lets one message
    /// of the largest accepted size complete.
    fn assembly_room(&self) -> usize {
        let longest = self.config.settings.max_message as usize + NATIVE_REQUEST_HEAD_MAX;
        let max = NATIVE_ASSEMBLY_MAX.max(longest);
        max.saturating_sub(self.streams.assembled())
    }

    /// Memory, in bytes, of an incomplete frame, incomplete messages, and requests that are not
    /// ready with their streams.
    pub(super) fn incomplete(&self) -> usize {
        self.frame_decoder.buffered() + self.streams.assembled() + self.streams.unready()
    }

    /// Bytes of [`incomplete`](Self::incomplete), and of messages that readers have not taken.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.incomplete() + self.streams.untaken()
    }

    /// Bytes of everything that waits to be sent.
    #[inline]
    pub(super) fn unsent_len(&self) -> usize {
        self.streams.queued() + self.outbox.backlog()
    }

    /// Accounts for a message of one frame without flags or metadata, and returns credit; `false`
    /// when it needs the general path.
    #[inline]
    pub(super) fn plain_message(&mut self, id: StreamId, len: usize) -> bool {
        let Some(index) = self.slots.find_open(id) else {
            return false;
        };
        let slot = self.slots.get(index);
        let (stream_index, is_sent) = (slot.stream, slot.is_sent);
        if stream_index == NO_STREAM || !is_sent || !self.streams.whole(stream_index, cost(len)) {
            return false;
        }
        self.return_credit(stream_index);
        true
    }

    /// Records that the reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, stream: StreamId, messages: usize) {
        let Some(index) = self.slots.find_open(stream) else {
            return;
        };
        let stream_index = self.slots.at(index).stream;
        if stream_index != NO_STREAM {
            self.streams.taken(stream_index, messages);
            self.return_credit(stream_index);
        }
    }

    /// Ends a call on the server, and its stream.
    pub(super) fn end_answered(&mut self, index: usize) {
        self.drop_stream(index);
        self.slots.end(index);
    }

    /// Sets the credit that streams opened by the peer have from now on.
    pub(super) fn set_window(&mut self, window: u32) {
        self.window = window;
    }

    /// Longest payload of a single-frame message that this end accepts.
    pub(super) fn plain_len_max(&self) -> usize {
        let settings = &self.config.settings;
        settings.max_payload.min(settings.max_message) as usize
    }

    /// Drops the stream of the call in slot `index`, if it has one.
    #[inline]
    pub(super) fn drop_stream(&mut self, index: usize) {
        let slot = self.slots.at(index);
        if slot.stream != NO_STREAM {
            let stream = std::mem::replace(&mut slot.stream, NO_STREAM);
            self.streams.release(stream);
        }
    }

    /// Checks the deadlines.
    ///
    /// # Errors
    ///
    /// Fails when the peer no longer answers.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        if let Some(violation) = &self.failed {
            self.is_failure_untold = false;
            return Err(violation.clone());
        }
        self.now = now;
        match self.keepalive.look(now) {
            Due::Nothing => {}
            Due::Probe(_) if !self.has_greeted => {}
            Due::Probe(nonce) => {
                self.outbox.put(&OutgoingFrame::control(FrameKind::Ping, NONE, nonce, &[]));
            }
            Due::Dead(kind) => return Err(self.fail(Violation::Unanswered { kind })),
        }
        Ok(())
    }
}

pub(super) const NONE: Flags = Flags::NONE;

/// Shortens a reason to its limit, at a character boundary.
pub(super) fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(NATIVE_REASON_MAX)]
}
