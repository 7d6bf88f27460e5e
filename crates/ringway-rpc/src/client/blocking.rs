//! Waiting for calls on threads that may block.

use ringway_runtime::CoreHandle;

use crate::parked;
use crate::status::Status;

/// Blocks until `call` is over.
pub(super) fn wait<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    if CoreHandle::is_here() {
        let why = "a core must not block: await the call, or wait for it on another thread";
        return Err(Status::failed_precondition(why));
    }
    parked::block_on(call)
}
