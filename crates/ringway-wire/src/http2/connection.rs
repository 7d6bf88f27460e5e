//! One connection as a state machine without I/O: the part that both ends share.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::arriving::Arriving;
use super::budgets::Budgets;
use super::draining::Draining;
use super::foreign::Foreign;
use super::frames::PREFACE;
use super::growth::WindowGrowth;
use super::hpack::TABLE_SIZE_DEFAULT;
use super::keepalive::Clocks;
use super::open_block::OpenBlock;
use super::outbox::WrittenFrames;
use super::put::{put_go_away, put_ping, put_settings, put_window_update};
use super::role::Role;
use super::settings::{FRAME_DEFAULT, PeerSettings, WINDOW_DEFAULT, setting};
use super::start_window::StartWindow;
use super::streams::StreamTable;
use super::{
    Decoder, Encoder, ErrorCode, Event, Fields, Http2Config, StreamHandle, Violation, Vocabulary,
};
use crate::limits::{HTTP2_ANSWERS_MAX, HTTP2_CONNECTION_WINDOW, HTTP2_STREAMS_DEFAULT};
use crate::native::Unserved;
use crate::rare_queue::RareQueue;
use crate::stamp::Stamp;

/// The stage of a connection's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    Preface,
    Settings,
    Open,
}

/// One end of a connection: bytes go into [`receive`](Self::receive), which returns events, and
/// bytes to send come out of [`transmit`](Self::transmit). See [`Http2Server`](super::Http2Server)
/// and [`Http2Client`](super::Http2Client).
///
/// The output is bounded if the caller stops calling `receive` while much of it is unsent: see
/// [`output_len`](Self::output_len).
#[derive(Debug)]
pub struct Connection<R: Role> {
    pub(crate) config: Arc<Http2Config>,
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The settings of the peer.
    pub(super) peer: PeerSettings,
    pub(super) stage: Handshake,
    pub(super) failed: Option<Violation>,
    /// Number of bytes received of the client's preface.
    pub(super) preface_len: u8,
    /// The start of a frame that has not arrived completely; empty between frames.
    pub(super) partial: Vec<u8>,
    pub(super) arriving: Arriving,
    /// The field block that is not complete.
    pub(super) block: Option<Box<OpenBlock>>,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// The fields of the last block; `None` before the first, and after they were dropped as spare.
    pub(super) fields: Option<Box<Fields>>,
    pub(super) outbox: WrittenFrames,
    pub(super) streams: StreamTable,
    /// Slots of streams that have data and credit, in the order in which they send.
    pub(super) line: RareQueue<u32>,
    /// Number of messages written ahead of that queue since one of its streams had a turn.
    pub(super) streak: u32,
    /// Memory that the queues of all streams hold.
    pub(super) queued: usize,
    /// Bytes that the peer may send on the connection.
    pub(super) window_left: u32,
    /// Bytes received on the connection whose credit is not returned yet.
    pub(super) window_owed: u32,
    /// Bytes that this end may send on the connection.
    pub(super) credit: i64,
    /// Events that the caller gets at its next `receive`, before any input is decoded.
    pub(super) pending: RareQueue<Event<'static>>,
    pub(super) budgets: Budgets,
    /// Cancelled streams of a client whose RST_STREAM is held back: at most as many as may be open.
    pub(super) held_resets: RareQueue<(StreamHandle, ErrorCode)>,
    pub(super) keepalive: Clocks,
    pub(super) growth: WindowGrowth,
    pub(super) start: StartWindow,
    /// When to check next for streams whose peers accept no data.
    pub(super) stall_at: Stamp,
    /// The time passed in by the latest call that had one.
    pub(crate) now: Duration,
    /// The highest stream id that the peer has opened.
    pub(super) last_peer: u32,
    /// The id of the next stream that this end opens.
    pub(super) next_own: u32,
    /// Whether the peer takes no more streams.
    pub(super) is_leaving: bool,
    /// Whether the texts of requests that are no calls are wanted, and whether there was one.
    pub(super) foreign: Foreign,
    /// Whether a stream could not be opened since the last `Capacity` event.
    pub(super) is_starved: bool,
    pub(super) drain: Draining,
    /// Streams of the peer's that this end has ended.
    pub(crate) unserved: Unserved,
    role: PhantomData<R>,
}

/// The purpose of a PING from this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PingTag {
    Keepalive = 1,
    Growth,
    Drain,
    Caller,
}

impl PingTag {
    pub(super) fn payload(self, nonce: u32) -> [u8; 8] {
        let [a, b, c, d] = nonce.to_be_bytes();
        [b'r', b'w', b'y', self as u8, a, b, c, d]
    }

    /// Tag and nonce of a PING's ACK, if this end sent that PING.
    pub(super) fn parse(payload: &[u8]) -> Option<(Self, u32)> {
        let [b'r', b'w', b'y', tag, nonce @ ..] = payload.first_chunk::<8>()? else {
            return None;
        };
        let tags = [Self::Keepalive, Self::Growth, Self::Drain, Self::Caller];
        let tag = tags.into_iter().find(|known| *known as u8 == *tag)?;
        Some((tag, u32::from_be_bytes(*nonce)))
    }
}

impl<R: Role> Connection<R> {
    /// Creates one end of an established connection, with preface and settings ready to send.
    #[must_use]
    pub fn new(
        config: impl Into<Arc<Http2Config>>,
        vocabulary: Arc<Vocabulary>,
        now: Duration,
    ) -> Self {
        let config = Http2Config::within_bounds(config.into());
        let peer = PeerSettings {
            table_size: TABLE_SIZE_DEFAULT,
            max_streams: HTTP2_STREAMS_DEFAULT,
            initial_window: WINDOW_DEFAULT,
            max_frame: FRAME_DEFAULT,
            max_header_list: u32::MAX,
        };
        let mut connection = Self {
            vocabulary,
            peer,
            stage: if R::IS_SERVER { Handshake::Preface } else { Handshake::Settings },
            failed: None,
            preface_len: 0,
            partial: Vec::new(),
            arriving: Arriving::default(),
            block: None,
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            fields: None,
            outbox: WrittenFrames::default(),
            streams: StreamTable::default(),
            line: RareQueue::default(),
            streak: 0,
            queued: 0,
            window_left: HTTP2_CONNECTION_WINDOW,
            window_owed: 0,
            credit: i64::from(WINDOW_DEFAULT),
            pending: RareQueue::default(),
            budgets: Budgets::new(now),
            held_resets: RareQueue::default(),
            keepalive: Clocks::new(&config, now),
            growth: WindowGrowth::default(),
            start: StartWindow::new(config.initial_window),
            stall_at: Stamp::NEVER,
            now,
            last_peer: 0,
            next_own: 1,
            is_leaving: false,
            foreign: Foreign::Unwanted,
            is_starved: false,
            drain: Draining::No,
            unserved: Unserved::default(),
            config,
            role: PhantomData,
        };
        connection.greet();
        connection
    }

    /// Queues the preface and SETTINGS (section 3.4).
    fn greet(&mut self) {
        let (config, out) = (&self.config, &mut self.outbox.written);
        let common = [
            (setting::INITIAL_WINDOW_SIZE, config.initial_window),
            (setting::MAX_FRAME_SIZE, config.max_frame),
            (setting::MAX_HEADER_LIST_SIZE, config.max_header_list),
        ];
        let own = match R::IS_SERVER {
            true => (setting::MAX_CONCURRENT_STREAMS, config.max_streams),
            false => {
                out.extend_from_slice(PREFACE);
                (setting::ENABLE_PUSH, 0)
            }
        };
        let [a, b, c] = common;
        put_settings(&[own, a, b, c], out);
        put_window_update(0, HTTP2_CONNECTION_WINDOW - WINDOW_DEFAULT, out);
        self.keepalive.note_settings_sent(self.now);
    }

    /// The fields of the message that the last event reported.
    #[inline]
    #[must_use]
    pub fn fields(&self) -> &Fields {
        static NONE: Fields = Fields::NONE;
        self.fields.as_deref().unwrap_or(&NONE)
    }

    /// Open streams, a server's reset streams that were not [let go](Self::let_go), and a client's
    /// cancelled streams whose RST_STREAM is held back.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.streams.live()
    }

    /// Bytes buffered for incomplete frames and field blocks.
    #[must_use]
    pub fn incomplete_len(&self) -> usize {
        self.partial.len() + self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Largest header list of a message that the peer accepts, in bytes, with 32 added for each
    /// field.
    #[must_use]
    pub fn peer_header_list_max(&self) -> u32 {
        self.peer.max_header_list
    }

    /// Whether [`receive`](Self::receive) has an event even without input.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends a PING, whose answer is reported as [`Event::Pong`].
    pub fn ping(&mut self, nonce: u32) {
        if self.failed.is_none() {
            put_ping(0, PingTag::Caller.payload(nonce), &mut self.outbox.written);
        }
    }

    /// Resets a stream: RST_STREAM is sent, and the stream yields no more events. A client that
    /// resets very many streams sends some RST_STREAMs later; those streams stay in flight until
    /// then.
    pub fn reset(&mut self, stream: StreamHandle, code: ErrorCode) {
        if self.failed.is_some() {
            return;
        }
        if !self.pending.is_empty() {
            self.forget_events(stream);
        }
        if self.streams.get(stream).is_none() {
            return;
        }
        self.give_up(stream, code);
        self.let_go(stream);
    }

    /// Drops pending events of a stream. If one of them was its end, the stream is let go.
    fn forget_events(&mut self, stream: StreamHandle) {
        let before = self.pending.len();
        self.pending.retain(|event| event.ends() != Some(stream));
        if self.pending.len() < before {
            self.let_go(stream);
        }
        let is_room =
            |event: &Event<'_>| matches!(event, Event::Writable { stream: of } if *of == stream);
        self.pending.retain(|event| !is_room(event));
    }

    /// Releases the slot of a stream that was [reset](Event::Reset) or has [failed](Event::Failed),
    /// once its handler has stopped. Only servers need to; a client's slots are released at once.
    pub fn let_go(&mut self, stream: StreamHandle) {
        if R::IS_SERVER {
            self.streams.let_go(stream);
        }
    }

    /// Frees the memory that earlier messages and ended streams have left for the next ones. What is
    /// under way is not affected.
    pub fn drop_spare(&mut self) {
        self.fields = None;
        self.decoder.drop_spare();
        self.encoder.drop_spare();
        self.outbox.drop_spare();
        if self.streams.live() == 0 {
            self.line.clear(); // slots of streams that have ended stay in line until their turn
            self.streams.drop_slots();
        }
        self.streams.closed.drop_spare();
        self.growth.drop_spare(self.now);
        self.line.drop_spare();
        self.pending.drop_spare();
        self.held_resets.drop_spare();
        self.partial.shrink_to_fit();
    }

    /// Fails the connection because of what the peer did: streams and their contents are dropped,
    /// no further events are reported, and GOAWAY is the last frame.
    #[cold]
    pub(super) fn fail(&mut self, violation: Violation) -> Violation {
        if self.failed.is_none() {
            let last = self.last_served();
            self.streams.drop_contents();
            self.line.clear();
            self.queued = 0;
            self.pending.clear();
            self.held_resets.clear();
            self.partial = Vec::new();
            self.block = None;
            match violation {
                // No GOAWAY for a peer that speaks another protocol.
                Violation::NotHttp2 => {
                    self.outbox.drop_written(&mut self.streams.discarded);
                }
                _ => {
                    let (code, reason) = (violation.code(), violation.reason());
                    let out = &mut self.outbox.written;
                    put_go_away(last, code, reason.as_bytes(), out);
                }
            }
            self.failed = Some(violation);
        }
        violation
    }

    /// Counts a frame that was written because the peer asked for it.
    ///
    /// # Errors
    ///
    /// Fails when the peer causes many such frames and does not read them.
    pub(super) fn count_answer(&mut self) -> Result<(), Violation> {
        match self.outbox.count_answer() as usize > HTTP2_ANSWERS_MAX {
            true => Err(Violation::AnswersUnread),
            false => Ok(()),
        }
    }

    /// Whether a stream was never opened (idle in section 5.1).
    pub(super) fn is_idle(&self, id: u32) -> bool {
        let is_clients = id % 2 == 1;
        match R::IS_SERVER {
            true => !is_clients || id > self.last_peer,
            false => !is_clients || id >= self.next_own,
        }
    }

    /// Whether the connection has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout); `None` after a failure, and
    /// while nothing is awaited.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.failed.is_some() {
            return None;
        }
        let resets = match self.held_resets.is_empty() {
            true => Stamp::NEVER,
            false => Stamp::of(self.budgets.next_reset(self.now)),
        };
        let keepalive = self.keepalive.deadline(&self.config, self.streams.live() > 0);
        keepalive.min(self.stall_at).min(self.drain.deadline()).min(resets).time()
    }

    /// Checks the deadlines.
    ///
    /// # Errors
    ///
    /// Fails when the peer no longer answers.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Violation> {
        if let Some(violation) = self.failed {
            return Err(violation);
        }
        self.now = now;
        match self.keepalive.look(&self.config, self.streams.live() > 0, now) {
            Ok(false) => {}
            Ok(true) => put_ping(0, PingTag::Keepalive.payload(0), &mut self.outbox.written),
            Err(violation) => return Err(self.fail(violation)),
        }
        if !self.held_resets.is_empty() {
            self.release_resets();
        }
        if self.stall_at.has_come(now) {
            self.look_for_stalls();
        }
        if self.drain.is_over(now) {
            self.announce_last();
            self.drain = Draining::Over(self.last_served());
            self.pending.push_back(Event::DrainOver);
        }
        Ok(())
    }
}
