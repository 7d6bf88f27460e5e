//! What a stream's deadlines count from.

use std::time::Instant;

use super::stream_limits::StreamLimits;
use crate::Deadline;
use crate::timer::wheel::TimerKey;

/// The moments that a stream's deadlines count from, and its timer.
pub(crate) struct Clocks {
    pub(super) opened: Instant,
    /// Bytes have arrived.
    pub(super) received: Instant,
    /// Bytes were handed over, or some that had to wait were accepted, or there was nothing left to
    /// send for a dropped stream. Nothing is handed over before all before it is accepted, so this is
    /// also the last progress of what is in flight.
    pub(super) sent: Instant,
    pub(super) timer: Option<TimerKey>,
    /// When it fires; never without one.
    pub(super) fires: Deadline,
}

impl Clocks {
    pub(crate) fn new(now: Instant) -> Self {
        Self { opened: now, received: now, sent: now, timer: None, fires: Deadline::NEVER }
    }

    #[inline]
    pub(crate) fn note_received(&mut self, now: Instant) {
        self.received = now;
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, now: Instant) {
        self.sent = now;
    }

    /// When bytes last moved in either direction.
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
