//! What the client of each framework offers to the closed loop of calls.

use std::future::Future;

use bytes::Bytes;

use crate::client::run::Error;

/// A connection of some framework, shared by its clones.
pub(super) trait Caller: Clone + Send + 'static {
    /// One call with one message each way.
    fn call(&mut self, request: Bytes) -> impl Future<Output = Result<Bytes, Error>> + Send;
}
