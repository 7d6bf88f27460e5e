//! The times from which a stream's deadlines count.

use std::time::{Duration, Instant};

use super::stream_limits::StreamLimits;
use crate::Deadline;
use crate::limits;
use crate::timer::wheel::TimerKey;

/// The times from which a stream's deadlines count, and its timer.
pub(crate) struct Clocks {
    pub(super) opened: Instant,
    /// When bytes last arrived.
    pub(super) received: Instant,
    /// When bytes were last handed over, or bytes that had to wait were accepted, or a dropped
    /// stream had nothing left to send. Bytes are handed over only after all before them are
    /// accepted, so this is also the last progress of what is in flight.
    pub(super) sent: Instant,
    /// How far the peer is behind with what waits for it: the time that passed until `sent`, less what the bytes that it
    /// took meanwhile may take. Nothing while nothing waits.
    behind_ms: u32,
    pub(super) timer: Option<TimerKey>,
    /// When the timer fires; `NEVER` without a timer.
    pub(super) fires: Deadline,
}

impl Clocks {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            opened: now,
            received: now,
            sent: now,
            behind_ms: 0,
            timer: None,
            fires: Deadline::NEVER,
        }
    }

    #[inline]
    pub(crate) fn note_received(&mut self, now: Instant) {
        self.received = now;
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// Records that a batch which waits has got rid of some bytes.
    pub(crate) fn note_progress(&mut self, now: Instant, bytes: usize) {
        let passed = now.saturating_duration_since(self.sent).as_millis();
        self.behind_ms = self.behind_ms.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.sent = now;
        self.note_taken(bytes);
    }

    /// Counts bytes that the peer took for the time that has passed.
    #[inline]
    pub(crate) fn note_taken(&mut self, bytes: usize) {
        let ms = bytes.saturating_mul(limits::WRITE_BYTE_MS).min(u32::MAX as usize);
        self.behind_ms = self.behind_ms.saturating_sub(ms as u32);
    }

    /// Records that the peer has taken everything.
    #[inline]
    pub(crate) fn note_all_taken(&mut self) {
        self.behind_ms = 0;
    }

    /// When a peer has been behind for `timeout` if it takes no more.
    pub(super) fn stall(&self, timeout: Duration) -> Deadline {
        let behind = Duration::from_millis(self.behind_ms.into());
        Deadline::after(self.sent, timeout.saturating_sub(behind))
    }

    /// The time at which bytes last moved in either direction.
    pub(crate) fn last_active(&self) -> Instant {
        self.received.max(self.sent)
    }

    pub(super) fn lifetime(&self, limits: &StreamLimits) -> Deadline {
        Deadline::after_any(self.opened, limits.lifetime)
    }

    pub(super) fn idle(&self, limits: &StreamLimits) -> Deadline {
        Deadline::after_any(self.last_active(), limits.idle_timeout)
    }
}
