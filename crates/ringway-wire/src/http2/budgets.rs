//! Limits for what a peer may do without making progress (RFC 9113, section 10.5).

use std::time::Duration;

use super::Violation;
use crate::limits::{
    HTTP2_IDLE_RATE, HTTP2_OWN_RESET_RATE, HTTP2_PING_RATE, HTTP2_RESET_RATE, HTTP2_SETTINGS_RATE,
};
use crate::rates::{Allowance, Bucket};

/// The remaining budgets of a peer.
#[derive(Debug)]
pub(super) struct Budgets {
    pings: Allowance<2>,
    settings: Bucket,
    resets: Allowance<2>,
    own_resets: Allowance<2>,
    idle: Allowance<4>,
    /// Number of streams that completed, modulo 2^32.
    finished: u32,
    /// Number of requests, and of DATA frames in both directions, modulo 2^32.
    progress: u32,
}

impl Budgets {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            pings: Allowance::new(HTTP2_PING_RATE, now),
            settings: Bucket::new(HTTP2_SETTINGS_RATE, now),
            resets: Allowance::new(HTTP2_RESET_RATE, now),
            own_resets: Allowance::new(HTTP2_OWN_RESET_RATE, now),
            idle: Allowance::new(HTTP2_IDLE_RATE, now),
            finished: 0,
            progress: 0,
        }
    }

    /// Counts a stream that has completed.
    #[inline]
    pub(super) fn note_finished(&mut self) {
        self.finished = self.finished.wrapping_add(1);
    }

    /// Counts a request, or a DATA frame in either direction.
    #[inline]
    pub(super) fn note_progress(&mut self) {
        self.progress = self.progress.wrapping_add(1);
    }

    /// Counts a PING from the peer. Each request and DATA frame allows one more: grpc-go measures the path whenever
    /// DATA has come.
    ///
    /// # Errors
    ///
    /// Fails when there are too many, as the other counters do.
    pub(super) fn bear_ping(&mut self, now: Duration) -> Result<(), Violation> {
        match self.pings.take(HTTP2_PING_RATE, now, self.progress.into()) {
            true => Ok(()),
            false => Err(Violation::TooManyPings),
        }
    }

    /// Counts SETTINGS from the peer.
    pub(super) fn bear_settings(&mut self, now: Duration) -> Result<(), Violation> {
        if self.settings.take(HTTP2_SETTINGS_RATE, now) {
            Ok(())
        } else {
            Err(Violation::TooManySettings)
        }
    }

    /// Counts a stream that the peer resets in the moment it opens it, or makes us reset. Each
    /// completed stream allows one more.
    pub(super) fn bear_reset(&mut self, now: Duration) -> Result<(), Violation> {
        match self.resets.take(HTTP2_RESET_RATE, now, self.finished.into()) {
            true => Ok(()),
            false => Err(Violation::TooManyResets),
        }
    }

    /// Whether a client may reset one more stream now.
    pub(super) fn may_reset(&mut self, now: Duration) -> bool {
        self.own_resets.take(HTTP2_OWN_RESET_RATE, now, self.finished.into())
    }

    /// The latest time at which a client may reset one more stream.
    pub(super) fn next_reset(&self, now: Duration) -> Duration {
        self.own_resets.next(HTTP2_OWN_RESET_RATE, now)
    }

    /// Counts a frame without content. Each request and DATA frame allows two more.
    pub(super) fn bear_idle(&mut self, now: Duration) -> Result<(), Violation> {
        match self.idle.take(HTTP2_IDLE_RATE, now, self.progress.into()) {
            true => Ok(()),
            false => Err(Violation::TooManyIdleFrames),
        }
    }
}
