//! The water marks of a send queue.

use ringway_runtime::io::StreamLimits;

use crate::limits::HIGH_WATER_MIN;

/// Orders the marks: low ≤ high ≤ bound. With a bound below the high-water mark the connection
/// would fail before senders see backpressure. Both marks are above zero, so that an empty queue
/// always ends the backpressure.
pub(crate) fn put_in_order(limits: &mut StreamLimits) {
    limits.send_high_water = limits.send_high_water.max(HIGH_WATER_MIN);
    limits.send_low_water = limits.send_low_water.min(limits.send_high_water);
    limits.send_queue_max = limits.send_queue_max.max(limits.send_high_water);
}
