//! Calls that have been admitted.

use ringway_wire::native::StreamId;

use super::call_times::CallTimes;
use super::core::InFlight;
use crate::service::Begin;

/// A call that has been admitted, but for what its handler sees of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// Of its method.
    pub(super) place: usize,
    pub(super) stream: StreamId,
    pub(super) times: CallTimes,
}

/// A call whose handler starts when all that was received is taken in.
pub(super) struct Deferred {
    pub(super) admitted: Admitted,
    pub(super) begin: Begin<'static>,
    pub(super) in_flight: InFlight,
}

/// Why a call has not begun.
pub(super) const DRAINED: &str = "the server has shut down before the call could begin";
