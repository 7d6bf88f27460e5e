//! What both ends of a connection have: input, output, calls, streams and clocks.

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
    NATIVE_SETTINGS_RATE,
};
use crate::rates::{Allowance, Bucket};

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Preface,
    Settings,
    Open,
}

/// What the caller is told at its next `receive`, whatever arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    Writable(StreamId),
    Failed(StreamId, u8),
    Capacity,
}

/// What is to be done before the next frame is read.
pub(super) enum Before<Event> {
    /// Frames are next.
    Frames,
    /// Nothing more can be told of this input.
    Nothing,
    /// The caller is told of this first.
    Event(Event),
}

/// The part of a connection that does not depend on who asks and who answers.
#[derive(Debug)]
pub(super) struct NativeConnection {
    pub(super) config: Config,
    /// What the peer accepts.
    pub(super) peer: Settings,
    pub(super) stage: Stage,
    /// Our preface is written; nothing may be before it.
    pub(super) has_greeted: bool,
    pub(super) failed: Option<Violation>,
    /// The caller does not know of it.
    pub(super) is_failure_untold: bool,
    pub(super) frame_decoder: FrameDecoder,
    /// What came of the peer's preface.
    pub(super) preface: ArrivingPreface,
    pub(super) outbox: Outbox,
    pub(super) slots: Slots,
    pub(super) streams: Streams,
    pub(super) pending: VecDeque<Pending>,
    /// Streams that wrote while much was written already: their writers wait until it has left.
    pub(super) backpressured: Vec<StreamId>,
    pub(super) keepalive: Keepalive,
    pub(super) pings: Bucket,
    pub(super) settings_frames: Bucket,
    /// For frames that bring nothing.
    idle: Allowance,
    /// The time at the last call that told it.
    pub(super) now: Duration,
    /// Requests in the order of the wire: received by a server, sent by a client.
    pub(super) requests: u64,
    /// What a stream opened by the peer may send; the peer knows it since its ACK.
    pub(super) window: u32,
    /// The same as it was configured.
    pub(super) initial_credit: u32,
    /// SETTINGS that the peer has not acknowledged: what they say of that, and when they were sent.
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
            pings: Bucket::new(NATIVE_PING_RATE, now),
            settings_frames: Bucket::new(NATIVE_SETTINGS_RATE, now),
            idle: Allowance::new(NATIVE_IDLE_RATE, 4, now),
            now,
            requests: 0,
            window: Settings::default().initial_credit,
            initial_credit: config.settings.initial_credit,
            unacknowledged: VecDeque::new(),
            auto_tune: AutoTune::new(&config),
            config,
        }
    }

    /// Notes the time, and that bytes came.
    #[inline]
    pub(super) fn hear(&mut self, input: &[u8], now: Duration) {
        self.now = now;
        if !input.is_empty() {
            self.keepalive.hear(now);
        }
    }

    /// Whether frames are all there is to care for.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.stage == Stage::Open && self.failed.is_none() && self.pending.is_empty()
    }

    /// Ends the connection for what the peer did: streams stop and what they hold goes, nobody is
    /// told anything more, GOAWAY is the last frame.
    #[cold]
    pub(super) fn fail(&mut self, violation: Violation) -> Violation {
        if self.failed.is_none() {
            self.outbox.drop_streams();
            self.streams.drop_contents();
            self.frame_decoder.drop_contents();
            self.pending = VecDeque::new();
            self.backpressured = Vec::new();
            match violation {
                // Somebody who speaks something else is told nothing, and who has gone, no more.
                Violation::NotNative => {}
                Violation::PeerLeft { .. } => self.drop_written(),
                _ if self.has_greeted => {
                    self.put_go_away(violation.code(), Duration::ZERO, &violation.to_string());
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

    /// Gives up all that is to be sent: the connection is gone.
    pub(super) fn discard_output(&mut self) {
        self.outbox.drop_streams();
        self.streams.drop_contents();
        self.drop_written();
    }

    /// Has the caller told something at its next `receive`. After a failure there is nothing to be
    /// told but the failure, so that a caller that waits for the end of this comes to it.
    pub(super) fn tell(&mut self, pending: Pending) {
        if self.failed.is_none() {
            self.pending.push_back(pending);
        }
    }

    pub(super) fn put_go_away(&mut self, code: GoAwayCode, drain: Duration, reason: &str) {
        let drain_ms = u32::try_from(drain.as_millis()).unwrap_or(u32::MAX);
        let go_away = GoAway { code: code.code(), drain_ms, reason: shortened(reason).as_bytes() };
        let mut body = Vec::new();
        go_away.encode(&mut body);
        let frame = OutgoingFrame::control(FrameKind::GoAway, NONE, self.requests as u32, &body);
        self.outbox.put(&frame);
    }

    /// Counts a frame that brings nothing.
    ///
    /// # Errors
    ///
    /// When there are too many of them.
    pub(super) fn bear(&mut self, kind: FrameKind) -> Result<(), Violation> {
        match self.idle.take(self.now, self.requests) {
            true => Ok(()),
            false => Err(Violation::Flood { kind }),
        }
    }

    /// Counts a frame for a call that has ended. Data may come for a while, as its credit lets it.
    ///
    /// # Errors
    ///
    /// When there are too many of the others.
    pub(super) fn bear_late(&mut self, kind: FrameKind) -> Result<(), Violation> {
        if kind == FrameKind::Data { Ok(()) } else { self.bear(kind) }
    }

    /// Sends a frame that the peer has caused.
    ///
    /// # Errors
    ///
    /// When the peer causes them and does not read them.
    pub(super) fn answer(&mut self, frame: &OutgoingFrame<'_>) -> Result<(), Violation> {
        if self.outbox.put_answer(frame) > NATIVE_ANSWERS_MAX {
            return Err(Violation::Flood { kind: frame.kind });
        }
        Ok(())
    }

    /// The stream of the call in slot `index`, made if it has none: so much may be sent, and so
    /// much is accepted.
    #[inline]
    pub(super) fn stream_at(&mut self, index: usize, credit: u32, window: u32) -> u32 {
        match self.slots.get(index).stream {
            NO_STREAM => self.new_stream(index, credit, window),
            place => place,
        }
    }

    /// The same at the responder, for what is sent back.
    #[inline]
    pub(super) fn reply_stream(&mut self, index: usize) -> u32 {
        match self.slots.get(index).stream {
            NO_STREAM => self.open_reply_stream(index),
            place => place,
        }
    }

    #[cold]
    fn open_reply_stream(&mut self, index: usize) -> u32 {
        let slot = *self.slots.get(index);
        let place = self.new_stream(index, slot.reply_credit, self.window);
        self.note_time(place, slot.timeout_us);
        place
    }

    /// Notes the time that a call has from now on.
    pub(super) fn note_time(&mut self, place: u32, timeout_us: u32) {
        let stream = self.streams.at(place);
        stream.touched = self.now;
        // Longer times than that stand in the metadata, with the most there can be here.
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

    /// Takes a fragment of a message, and returns credit.
    ///
    /// # Errors
    ///
    /// When the peer must not send it so.
    pub(super) fn fragment<'i>(
        &mut self,
        place: u32,
        header: &Header,
        payload: Piece<'i>,
    ) -> Result<Assembled<'i>, Violation> {
        let settings = &self.config.settings;
        // No compression and no attachment is ever announced or asked for.
        if header.flags.intersects(Flags::COMPRESSED | Flags::RAW) {
            let (kind, flags) = (header.kind, header.flags);
            return Err(Violation::UnexpectedFlags { kind, flags });
        }
        if payload.len() > settings.max_payload as usize {
            let (len, max) = (payload.len() as u32, settings.max_payload);
            return Err(Violation::FrameTooLarge { len, max });
        }
        let has_more = header.flags.contains(Flags::MORE);
        let announced = if has_more { header.aux } else { 0 };
        let (stream, message_max) = (header.stream, settings.max_message);
        let fragment = IncomingFragment { stream, payload, has_more, announced, message_max };
        let stream = self.streams.at(place);
        stream.touched = self.now;
        if has_more && stream.receive.auto_tune(&fragment) > self.assembly_room() {
            return Ok(Assembled::TooLarge(self.too_large(announced)));
        }
        let assembled = self.streams.fragment(place, fragment)?;
        if !header.flags.contains(Flags::END) {
            self.return_credit(place);
        }
        Ok(assembled)
    }

    /// Why a message is not taken that announces this length, or none (0), and finds no room.
    #[cold]
    fn too_large(&self, announced: u32) -> TooLarge {
        let max = self.config.settings.max_message;
        match announced > max {
            true => TooLarge::Message { len: announced as usize, max },
            false => TooLarge::Together,
        }
    }

    /// Bytes by which all messages together that are not whole may grow. One alone is never held
    /// back, however long the messages are that this end takes.
    fn assembly_room(&self) -> usize {
        let max = NATIVE_ASSEMBLY_MAX.max(self.config.settings.max_message as usize);
        max.saturating_sub(self.streams.assembled())
    }

    /// Bytes of memory for what is not whole: a frame, messages, requests, and their streams.
    pub(super) fn incomplete(&self) -> usize {
        self.frame_decoder.buffered() + self.streams.assembled() + self.streams.unready()
    }

    /// These, and the bytes of messages that readers have not taken.
    #[inline]
    pub(super) fn buffered(&self) -> usize {
        self.incomplete() + self.streams.untaken()
    }

    /// Bytes of all that is to be sent.
    #[inline]
    pub(super) fn unsent_len(&self) -> usize {
        self.streams.queued() + self.outbox.backlog()
    }

    /// Takes a message of one frame without flags or metadata, and returns credit; `false` when
    /// that needs a closer look.
    #[inline]
    pub(super) fn plain_message(&mut self, id: StreamId, len: usize) -> bool {
        let Some(index) = self.slots.find_open(id) else {
            return false;
        };
        let slot = self.slots.get(index);
        let (place, is_sent) = (slot.stream, slot.is_sent);
        if place == NO_STREAM || !is_sent || !self.streams.whole(place, cost(len)) {
            return false;
        }
        self.return_credit(place);
        true
    }

    /// The reader of a stream took messages.
    #[inline]
    pub(super) fn taken(&mut self, stream: StreamId, messages: usize) {
        let Some(index) = self.slots.find_open(stream) else {
            return;
        };
        let place = self.slots.at(index).stream;
        if place != NO_STREAM {
            self.streams.taken(place, messages);
            self.return_credit(place);
        }
    }

    /// Ends a call at the responder, with its stream.
    pub(super) fn end_answered(&mut self, index: usize) {
        self.drop_stream(index);
        self.slots.end(index);
    }

    /// What streams of the peer may send from now on without CREDIT.
    pub(super) fn set_window(&mut self, window: u32) {
        self.window = window;
    }

    /// Longest payload of one frame that is a message this end takes.
    pub(super) fn plain_len_max(&self) -> usize {
        let settings = &self.config.settings;
        settings.max_payload.min(settings.max_message) as usize
    }

    /// Gives up the stream of the call in slot `index`, if it has one.
    #[inline]
    pub(super) fn drop_stream(&mut self, index: usize) {
        let slot = self.slots.at(index);
        if slot.stream != NO_STREAM {
            let stream = std::mem::replace(&mut slot.stream, NO_STREAM);
            self.streams.release(stream);
        }
    }

    /// Looks at the clock.
    ///
    /// # Errors
    ///
    /// When the peer is gone.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        if let Some(violation) = &self.failed {
            self.is_failure_untold = false;
            return Err(violation.clone());
        }
        self.now = now;
        match self.keepalive.look(now) {
            Due::Nothing => {}
            Due::Probe(nonce) => {
                self.outbox.put(&OutgoingFrame::control(FrameKind::Ping, NONE, nonce, &[]));
            }
            Due::Dead(kind) => return Err(self.fail(Violation::Unanswered { kind })),
        }
        Ok(())
    }
}

/// No flag.
pub(super) const NONE: Flags = Flags::NONE;

/// A reason within its bound, cut between characters.
pub(super) fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(NATIVE_REASON_MAX)]
}
