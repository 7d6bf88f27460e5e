//! What the client of each framework offers to the closed loop of calls.

use std::future::Future;

use bytes::Bytes;

/// What connecting and calling fail with.
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// A connection of some framework, shared by its clones.
pub(super) trait Caller: Clone + Send + 'static {
    /// One call with one message each way.
    fn call(&mut self, request: Bytes) -> impl Future<Output = Result<Bytes, Error>> + Send;
}
