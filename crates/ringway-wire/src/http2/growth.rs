//! What is measured to have stream windows grow with the path.

use std::time::Duration;

use super::StreamHandle;
use crate::limits::{HTTP2_GROWN_MAX, HTTP2_MEASURED_MAX};
use crate::native::Window;

/// What is being measured: how much streams bring within a round trip.
#[derive(Debug, Default)]
pub(super) struct WindowGrowth {
    /// Windows fall instead: memory is short.
    pub(super) is_tight: bool,
    pub(super) round: Option<GrowthPing>,
    /// Streams that returned credit while the PING was on its way.
    pub(super) samples: Vec<StreamSample>,
    pub(super) nonce: u32,
    /// No PING before.
    pub(super) next: Duration,
    /// Bytes by which the windows of this connection's streams have grown. Streams that have ended
    /// give theirs back.
    pub(super) grown: u32,
}

/// A PING that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrowthPing {
    pub(super) nonce: u32,
    pub(super) began: Duration,
}

/// A stream as it was when it returned credit.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamSample {
    pub(super) stream: StreamHandle,
    pub(super) at: Duration,
    /// What its reader had had.
    pub(super) delivered: u32,
}

impl WindowGrowth {
    /// Whether a window may be larger, and its reader keeps up with what comes.
    pub(super) fn suits(&self, window: &Window, size_max: u32) -> bool {
        !self.is_tight
            && window.size() < size_max
            && self.grown < HTTP2_GROWN_MAX
            && window.waiting() <= window.size() / 4
    }

    pub(super) fn watch(&mut self, sample: StreamSample) {
        let is_watched = self.samples.iter().any(|known| known.stream == sample.stream);
        if !is_watched && self.samples.len() < HTTP2_MEASURED_MAX {
            self.samples.push(sample);
        }
    }

    /// A stream has ended whose window had grown.
    #[inline]
    pub(super) fn note_ended(&mut self, window: &Window) {
        self.grown -= self.grown.min(window.grown());
    }
}

impl StreamSample {
    /// How many bytes a stream brings within a `trip`, by those that came since; `None` when that was
    /// too short a time to tell.
    pub(super) fn within(&self, trip: Duration, now: Duration, delivered: u32) -> Option<u64> {
        let since = now.saturating_sub(self.at);
        let came = u128::from(delivered.wrapping_sub(self.delivered));
        let scaled = (came * trip.as_nanos()).checked_div(since.as_nanos())?;
        (since * 2 >= trip).then(|| u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}
