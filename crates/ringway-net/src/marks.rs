//! The marks of a send queue, as they make sense.

use ringway_runtime::io::StreamLimits;

use crate::limits::HIGH_WATER_MIN;

/// The low mark is not above the high one, nor that one above the bound: there the connection would
/// fail before its senders hear of any pressure. An empty queue is below all of them, or nothing would
/// ever end the pressure.
pub(crate) fn put_in_order(limits: &mut StreamLimits) {
    limits.send_high_water = limits.send_high_water.max(HIGH_WATER_MIN);
    limits.send_low_water = limits.send_low_water.min(limits.send_high_water);
    limits.send_queue_max = limits.send_queue_max.max(limits.send_high_water);
}
