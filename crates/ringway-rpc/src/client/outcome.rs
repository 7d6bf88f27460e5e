//! How a call ended, before anything is decoded into the user's types.

use bytes::Bytes;

use crate::call::metadata::Metadata;
use crate::call::status::Status;

pub(super) type CallOutcome = Result<RawReply, Status>;

/// A reply's message, still encoded, and what came with it.
#[derive(Debug)]
pub(super) struct RawReply {
    pub(super) message: Bytes,
    /// `None` if the peer said nothing.
    pub(super) meta: Option<Box<ReplyMeta>>,
}

/// What a peer says beside its messages.
#[derive(Clone, Default, Debug)]
pub(super) struct ReplyMeta {
    pub(super) initial: Metadata,
    pub(super) trailers: Metadata,
}
