//! A request between its text and its call.

use bytes::Bytes;
use ringway_wire::jsonrpc::KeptId;

/// A request that was read and is to be reported.
#[derive(Debug)]
pub(super) struct ReadRequest {
    pub(super) id: Option<KeptId>,
    pub(super) batch: Option<u32>,
    /// `None` if there is no such method; then the metadata has its name.
    pub(super) method: Option<u32>,
    pub(super) is_subscription: bool,
    /// Shared with the other requests of its text, unless it says more.
    pub(super) meta: Bytes,
    pub(super) message: Bytes,
    /// Memory of its own, in bytes, with that of its reply where it is known.
    pub(super) len: usize,
}
