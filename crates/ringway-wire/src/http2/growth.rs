//! Stream windows: credit that goes back as the reader takes, and growth with the path.

use std::time::Duration;

use super::StreamHandle;
use crate::limits::HTTP2_GROWN_MAX;
use crate::native::Window;

/// What is being measured: how much one stream brings within a round trip.
#[derive(Debug, Default)]
pub(super) struct WindowGrowth {
    pub(super) round: Option<Measurement>,
    pub(super) nonce: u32,
    /// No PING before.
    pub(super) next: Duration,
    /// Bytes by which the windows of this connection's streams have grown. Streams that have ended
    /// give theirs back.
    pub(super) grown: u32,
}

/// A PING that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measurement {
    pub(super) nonce: u32,
    pub(super) began: Duration,
    pub(super) stream: StreamHandle,
    /// What its reader had had.
    pub(super) delivered: u32,
}

impl WindowGrowth {
    /// Whether a window may be larger, and its reader keeps up with what comes.
    pub(super) fn suits(&self, window: &Window, size_max: u32) -> bool {
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
