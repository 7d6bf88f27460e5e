//! Calls that have been admitted.

use ringway_wire::native::StreamId;

use super::call_times::CallTimes;
use super::core::InFlight;
use crate::service::Begin;

/// An admitted call, without the parts that its handler gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    pub(super) method_index: usize,
    pub(super) stream: StreamId,
    pub(super) times: CallTimes,
}

/// A call whose handler starts once all received bytes have been processed.
pub(super) struct Deferred {
    pub(super) admitted: Admitted,
    pub(super) begin: Begin<'static>,
    pub(super) in_flight: InFlight,
    /// The bytes in its stream which the machine does not count, because the client has said all.
    pub(super) len: usize,
}

/// The message for calls that the drain has kept from beginning.
pub(super) const DRAINED: &str = "the server has shut down before the call could begin";

/// The message for calls that the end of their connection has kept from beginning.
pub(super) const AGED: &str = "the connection has reached its age before the call could begin";
