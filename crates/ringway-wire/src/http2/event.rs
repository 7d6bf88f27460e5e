//! Events of a connection.

use super::{ErrorCode, StreamHandle};
use crate::native::Piece;

/// Something that arrived from the peer, or that happened to a stream. Both roles have the same
/// events.
#[derive(Debug)]
pub enum Event<'i> {
    /// The head of a request, or of the final response to one. The machine's `fields` hold it until
    /// the next `receive`.
    Head {
        /// The stream.
        stream: StreamHandle,
        /// Data that followed in the same input, if the whole frame did; otherwise empty.
        data: Piece<'i>,
        /// Whether the peer sends nothing more on the stream.
        end: bool,
    },
    /// A part of a message's content. DATA frames are cut where the input is cut, never assembled.
    Data {
        /// The stream.
        stream: StreamHandle,
        /// The bytes; empty only if `end` is set.
        data: Piece<'i>,
        /// Whether the peer sends nothing more on the stream.
        end: bool,
    },
    /// The peer ended the stream with trailers. The machine's `fields` hold them until the next
    /// `receive`.
    Trailers {
        /// The stream.
        stream: StreamHandle,
    },
    /// The peer reset the stream, or its GOAWAY said that it does not process it. On a server, drop
    /// the handler and call `let_go`.
    Reset {
        /// The stream.
        stream: StreamHandle,
        /// The error code; REFUSED_STREAM means that the request was not processed.
        code: ErrorCode,
    },
    /// The machine reset the stream because of what the peer did or failed to do. On a server, drop
    /// the handler and call `let_go`.
    Failed {
        /// The stream.
        stream: StreamHandle,
        /// The error code that was sent to the peer.
        code: ErrorCode,
    },
    /// The stream may send again.
    Writable {
        /// The stream.
        stream: StreamHandle,
    },
    /// Streams can be opened again after one could not be. Clients only.
    Capacity,
    /// The peer sent GOAWAY: it opens and accepts no more streams. A client is also told so when its stream ids
    /// are used up.
    Leaving {
        /// The error code.
        code: ErrorCode,
        /// The highest stream id that the peer processes.
        last: u32,
        /// The peer's reason, as text.
        reason: Piece<'i>,
    },
    /// The drain is over. Answer the open streams, send, and close. Servers only.
    DrainOver,
    /// The peer answered a [`ping`](super::Connection::ping).
    Pong {
        /// The nonce of that `ping`.
        nonce: u32,
    },
}

impl Event<'_> {
    /// The stream that this event ends by a reset, of either side.
    pub(super) fn ends(&self) -> Option<StreamHandle> {
        match *self {
            Self::Reset { stream, .. } | Self::Failed { stream, .. } => Some(stream),
            _ => None,
        }
    }
}
