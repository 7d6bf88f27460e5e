//! Blocking waits for calls.

use std::time::Instant;

use ringway_net::blocking_refused;
use ringway_net::remote::block_on_until;

use crate::call::status::Status;

/// Blocks until `call` is over. It is polled when it is woken, and at the time that `wakes_at`
/// returns.
///
/// # Errors
/// Fails when the call does, and with FAILED_PRECONDITION on a thread that must not block.
pub(crate) fn wait<T, C>(call: C, wakes_at: impl Fn(&C) -> Option<Instant>) -> Result<T, Status>
where
    C: Future<Output = Result<T, Status>> + Unpin,
{
    if let Some(why) = blocking_refused() {
        return Err(Status::failed_precondition(why));
    }
    block_on_until(call, wakes_at)
}
