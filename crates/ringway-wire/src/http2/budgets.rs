//! What a peer may do in vain (RFC 9113, section 10.5).

use std::time::Duration;

use super::Violation;
use crate::limits::{
    HTTP2_IDLE_RATE, HTTP2_OWN_RESET_RATE, HTTP2_PING_RATE, HTTP2_RESET_RATE, HTTP2_SETTINGS_RATE,
};
use crate::rates::{Allowance, Bucket};

/// How much a peer still may.
#[derive(Debug)]
pub(super) struct Budgets {
    pings: Bucket,
    settings: Bucket,
    resets: Allowance,
    own_resets: Allowance,
    idle: Allowance,
    /// Streams that came to their end.
    pub(super) finished: u64,
    /// Requests, and DATA frames in both directions.
    pub(super) progress: u64,
}

impl Budgets {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            pings: Bucket::new(HTTP2_PING_RATE, now),
            settings: Bucket::new(HTTP2_SETTINGS_RATE, now),
            resets: Allowance::new(HTTP2_RESET_RATE, 2, now),
            own_resets: Allowance::new(HTTP2_OWN_RESET_RATE, 2, now),
            idle: Allowance::new(HTTP2_IDLE_RATE, 4, now),
            finished: 0,
            progress: 0,
        }
    }

    /// Counts a PING of the peer's.
    ///
    /// # Errors
    ///
    /// Here and below, when there are too many.
    pub(super) fn bear_ping(&mut self, now: Duration) -> Result<(), Violation> {
        if self.pings.take(now) { Ok(()) } else { Err(Violation::TooManyPings) }
    }

    /// Counts SETTINGS of the peer's.
    pub(super) fn bear_settings(&mut self, now: Duration) -> Result<(), Violation> {
        if self.settings.take(now) { Ok(()) } else { Err(Violation::TooManySettings) }
    }

    /// Counts a stream that the peer resets at the moment at which it opens it, or makes us reset.
    /// Those that come to their end earn as many.
    pub(super) fn bear_reset(&mut self, now: Duration) -> Result<(), Violation> {
        match self.resets.take(now, self.finished) {
            true => Ok(()),
            false => Err(Violation::TooManyResets),
        }
    }

    /// Whether a client may reset one more stream by now.
    pub(super) fn may_reset(&mut self, now: Duration) -> bool {
        self.own_resets.take(now, self.finished)
    }

    /// When it may at the latest.
    pub(super) fn next_reset(&self) -> Duration {
        self.own_resets.next()
    }

    /// Counts a frame that brings nothing. Requests and DATA earn two each.
    pub(super) fn bear_idle(&mut self, now: Duration) -> Result<(), Violation> {
        match self.idle.take(now, self.progress) {
            true => Ok(()),
            false => Err(Violation::TooManyIdleFrames),
        }
    }
}
