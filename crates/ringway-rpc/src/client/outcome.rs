//! The raw outcome of a call, before its message is decoded.

use bytes::Bytes;

use crate::call::metadata::Metadata;
use crate::call::status::Status;

pub(super) type CallOutcome = Result<RawReply, Status>;

/// The encoded message and the metadata of a reply.
#[derive(Debug)]
pub(super) struct RawReply {
    pub(super) message: Bytes,
    /// The metadata; `None` if the server sent none.
    pub(super) meta: Option<Box<ReplyMeta>>,
}

/// The metadata of a reply.
#[derive(Clone, Default, Debug)]
pub(super) struct ReplyMeta {
    pub(super) initial: Metadata,
    pub(super) trailers: Metadata,
}
