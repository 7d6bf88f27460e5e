//! What is reported of calls beside new ones.

use ringway_wire::native::{Piece, ServerEvent, StreamId};

use crate::call::status::Code;

/// Something that has happened to a call and is to be reported.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told {
    Cancelled(StreamId),
    /// The call was answered with this status.
    Failed(StreamId, u8),
    Writable(StreamId),
}

impl Told {
    pub(super) fn event<'i>(self) -> ServerEvent<'i> {
        match self {
            Self::Cancelled(stream) => ServerEvent::Cancelled {
                stream,
                code: Code::Cancelled.number(),
                reason: Piece::Borrowed(b"the client has gone, or has unsubscribed"),
            },
            Self::Failed(stream, code) => ServerEvent::Failed { stream, code },
            Self::Writable(stream) => ServerEvent::Writable { stream },
        }
    }
}
