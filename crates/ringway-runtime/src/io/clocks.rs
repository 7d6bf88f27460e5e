//! The times from which a stream's deadlines count.

use std::time::Instant;

use super::stream_limits::StreamLimits;
use crate::Deadline;
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
    pub(super) timer: Option<TimerKey>,
    /// When the timer fires; `NEVER` without a timer.
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
