//! Waiting for calls on threads that may block.

use std::time::Instant;

use ringway_runtime::CoreHandle;

use super::block_on;
use crate::call::status::Status;

/// Blocks until `call` is over. It is polled when it is woken, and at the time that `wakes_at` names.
pub(crate) fn wait<T, C>(call: C, wakes_at: impl Fn(&C) -> Option<Instant>) -> Result<T, Status>
where
    C: Future<Output = Result<T, Status>> + Unpin,
{
    if CoreHandle::is_here() {
        let why = "a core must not block: await the call, or wait for it on another thread";
        return Err(Status::failed_precondition(why));
    }
    block_on::block_on_until(call, wakes_at)
}
