//! Stream windows: credit that goes back as the reader takes, and growth with the path.

use std::time::Duration;

use super::StreamId;
use super::connection::{Connection, PingTag};
use super::put::{put_ping, put_window_update};
use super::role::Role;
use crate::limits::{HTTP2_GROWN_MAX, HTTP2_MEASURE_PAUSE, HTTP2_RATE_ENOUGH};
use crate::native::Window;

/// What is being measured: how much one stream brings within a round trip.
#[derive(Debug, Default)]
pub(super) struct Growth {
    round: Option<Round>,
    nonce: u32,
    /// No PING before.
    next: Duration,
    /// Bytes by which the windows of this connection's streams have grown. Streams that have ended
    /// give theirs back.
    grown: u32,
}

/// A PING that has not been answered.
#[derive(Debug, Clone, Copy)]
struct Round {
    nonce: u32,
    began: Duration,
    stream: StreamId,
    /// What its reader had had.
    delivered: u32,
}

impl Growth {
    /// Whether a window may be larger, and its reader keeps up with what comes.
    fn suits(&self, window: &Window, size_max: u32) -> bool {
        window.size() < size_max
            && self.grown < HTTP2_GROWN_MAX
            && window.waiting() <= window.size() / 4
    }

    /// A stream has ended whose window had grown.
    #[inline]
    pub(super) fn note_ended(&mut self, window: &Window) {
        self.grown -= self.grown.min(window.grown());
    }
}

impl<R: Role> Connection<R> {
    /// Tells that the reader has taken so many bytes of a stream's data, so that the peer may send
    /// as many more. Each byte of each event is to be told once, unless the stream has ended.
    #[inline]
    pub fn taken(&mut self, stream: StreamId, bytes: usize) {
        if let Some(s) = self.streams.get(stream) {
            s.window.owe(bytes as u32);
            if s.window.is_due() && !s.remote_ended {
                self.give_back(stream);
            }
        }
    }

    #[cold]
    fn give_back(&mut self, stream: StreamId) {
        let (now, size_max) = (self.now, self.config.window_max);
        let Some(s) = self.streams.get(stream) else { return };
        let granted = s.window.give_back(now);
        let delivered = s.window.delivered();
        let suits = self.growth.suits(&s.window, size_max);
        if granted > 0 {
            put_window_update(stream.id, granted, &mut self.outbox.written);
        }
        let growth = &mut self.growth;
        if growth.round.is_none() && now >= growth.next && suits {
            growth.nonce = growth.nonce.wrapping_add(1);
            let nonce = growth.nonce;
            growth.round = Some(Round { nonce, began: now, stream, delivered });
            put_ping(0, PingTag::Growth.payload(nonce), &mut self.outbox.written);
        }
    }

    /// The peer has answered a PING that measures: a window of which more than two thirds of what
    /// is usable came in the meantime is doubled.
    pub(super) fn on_growth_pong(&mut self, nonce: u32) {
        let Some(round) = self.growth.round.take_if(|round| round.nonce == nonce) else {
            return;
        };
        self.growth.next = round.began.saturating_add(HTTP2_MEASURE_PAUSE);
        let (time, size_max) = (self.now.saturating_sub(round.began), self.config.window_max);
        let Some(s) = self.streams.get(round.stream) else { return };
        let window = &mut s.window;
        let arrived = window.delivered().wrapping_sub(round.delivered);
        let is_used_up = u64::from(arrived) * 3 > u64::from(window.usable()) * 2;
        let enough = time.as_micros() * HTTP2_RATE_ENOUGH / 1_000_000;
        let is_ample = u128::from(window.size()) >= enough;
        if time.is_zero() || !is_used_up || is_ample || s.remote_ended {
            return;
        }
        if !self.growth.suits(window, size_max) {
            return;
        }
        let room = (size_max - window.size()).min(HTTP2_GROWN_MAX - self.growth.grown);
        let by = window.size().min(room);
        let granted = window.grow(by);
        self.growth.grown += by;
        if granted > 0 {
            put_window_update(round.stream.id, granted, &mut self.outbox.written);
        }
    }
}
