//! Limits and timeouts of a stream.

use std::time::Duration;

use crate::limits;

/// Limits and timeouts of a stream; the streams of a server usually share one value.
#[derive(Clone, Debug)]
pub struct StreamLimits {
    /// Received, untaken bytes at which receiving pauses; it continues at half of that.
    pub recv_high_water: usize,
    /// Queued bytes at which [`Pressure::High`](super::Pressure::High) starts; a paced stream then
    /// stops reading its peer.
    pub send_high_water: usize,
    /// Queued bytes below which the pressure ends.
    pub send_low_water: usize,
    /// Queued bytes above which the stream is reset, because its peer reads too slowly.
    pub send_queue_max: usize,
    /// The stream is closed after this time without a byte in either direction.
    pub idle_timeout: Option<Duration>,
    /// The stream is closed at this age in any case.
    pub lifetime: Option<Duration>,
    /// The stream is closed when a send makes no progress for this time, or so little that its peer is behind 100 bytes
    /// a second by this time.
    pub write_stall_timeout: Option<Duration>,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            recv_high_water: limits::RECV_HIGH_WATER,
            send_high_water: limits::SEND_HIGH_WATER,
            send_low_water: limits::SEND_LOW_WATER,
            send_queue_max: limits::SEND_QUEUE_MAX,
            idle_timeout: None,
            lifetime: None,
            write_stall_timeout: Some(limits::WRITE_STALL_TIMEOUT),
        }
    }
}
