//! Measurements for the growth of stream windows.

use std::time::Duration;

use super::StreamHandle;
use crate::limits::{HTTP2_GROWN_MAX, HTTP2_MEASURED_MAX};
use crate::native::Window;

/// How far the windows of a connection have grown, and whether they may grow further.
#[derive(Debug, Default)]
pub(super) struct WindowGrowth {
    /// Memory is short, so windows shrink instead of growing.
    pub(super) is_under_pressure: bool,
    /// Bytes by which the windows of open streams have grown.
    pub(super) grown: u32,
    /// `None` until a stream receives much.
    pub(super) measurement: Option<Box<Measurement>>,
}

/// A connection's measurement of how much its streams receive within a round trip.
#[derive(Debug, Default)]
pub(super) struct Measurement {
    pub(super) round: Option<GrowthPing>,
    /// Streams that returned credit while the PING was in flight.
    pub(super) samples: Vec<StreamSample>,
    pub(super) nonce: u32,
    /// The earliest time for the next PING.
    pub(super) next: Duration,
}

/// A PING that has not been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrowthPing {
    pub(super) nonce: u32,
    pub(super) began: Duration,
}

/// A snapshot of a stream, taken when it returned credit.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamSample {
    pub(super) stream: StreamHandle,
    pub(super) at: Duration,
    /// Bytes that its reader had taken.
    pub(super) delivered: u32,
}

impl WindowGrowth {
    /// Whether a window may grow: it is below the limit, and its reader keeps up with the sender.
    pub(super) fn suits(&self, window: &Window, size_max: u32) -> bool {
        !self.is_under_pressure
            && window.size() < size_max
            && self.grown < HTTP2_GROWN_MAX
            && window.waiting() <= window.size() / 4
    }

    /// Frees the memory of a measurement that is over.
    pub(super) fn drop_spare(&mut self, now: Duration) {
        self.measurement.take_if(|measured| measured.round.is_none() && measured.next <= now);
    }

    /// Subtracts the growth of a stream that has ended.
    #[inline]
    pub(super) fn note_ended(&mut self, window: &Window) {
        self.grown -= self.grown.min(window.grown());
    }
}

impl Measurement {
    pub(super) fn watch(&mut self, sample: StreamSample) {
        let is_watched = self.samples.iter().any(|known| known.stream == sample.stream);
        if !is_watched && self.samples.len() < HTTP2_MEASURED_MAX {
            self.samples.push(sample);
        }
    }
}

impl StreamSample {
    /// Bytes that the stream receives within a `trip`, judged by those since the snapshot; `None`
    /// if that was too short a time.
    pub(super) fn within(&self, trip: Duration, now: Duration, delivered: u32) -> Option<u64> {
        let since = now.saturating_sub(self.at);
        let came = u128::from(delivered.wrapping_sub(self.delivered));
        let scaled = (came * trip.as_nanos()).checked_div(since.as_nanos())?;
        (since * 2 >= trip).then(|| u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}
