//! Bounds and timeouts of a stream.

use std::time::Duration;

use crate::limits;

/// Bounds and timeouts of a stream; one value is usually shared by all streams of a server.
#[derive(Clone, Debug)]
pub struct StreamLimits {
    /// Received and untaken bytes at which receiving pauses; it goes on at half of that.
    pub recv_high_water: usize,
    /// Queued bytes at which [`Pressure::High`](super::Pressure::High) begins; a paced stream stops reading its peer.
    pub send_high_water: usize,
    /// Queued bytes below which it ends.
    pub send_low_water: usize,
    /// Queued bytes above which the stream is reset: its peer reads too slowly.
    pub send_queue_max: usize,
    /// Time without a byte in either direction after which the stream is closed.
    pub idle_timeout: Option<Duration>,
    /// Time after which the stream is closed in any case.
    pub lifetime: Option<Duration>,
    /// Time without progress of a send after which the stream is closed.
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
