//! What a machine tells.

use super::{ErrorCode, StreamHandle};
use crate::native::Piece;

/// What has arrived from the peer, or happened to a stream. Both roles have the same events.
#[derive(Debug)]
pub enum Event<'i> {
    /// A request, or the final response to one. Until the next `receive`, the machine's `fields`
    /// are those of this message.
    Head {
        /// Its stream.
        stream: StreamHandle,
        /// Data that came right behind, if it came whole; else empty.
        data: Piece<'i>,
        /// The peer sends nothing more on the stream.
        end: bool,
    },
    /// A part of a message's content. DATA frames are cut where the input is, never assembled.
    Data {
        /// Its stream.
        stream: StreamHandle,
        /// The bytes; empty only where they `end`.
        data: Piece<'i>,
        /// The peer sends nothing more on the stream.
        end: bool,
    },
    /// The peer has ended the stream with trailers. Until the next `receive`, the machine's
    /// `fields` are these.
    Trailers {
        /// Its stream.
        stream: StreamHandle,
    },
    /// The peer has reset the stream, or has said by GOAWAY that it does not look at it. At a
    /// server, drop the handler and call `let_go`.
    Reset {
        /// Its stream.
        stream: StreamHandle,
        /// Why. REFUSED_STREAM: the request was not processed.
        code: ErrorCode,
    },
    /// The machine has reset the stream, for what the peer did or did not do. At a server, drop
    /// the handler and call `let_go`.
    Failed {
        /// Its stream.
        stream: StreamHandle,
        /// What the peer was told.
        code: ErrorCode,
    },
    /// The stream has room again.
    Writable {
        /// The stream.
        stream: StreamHandle,
    },
    /// Streams can be opened again, after one could not. Clients only.
    Capacity,
    /// The peer takes or opens no more streams.
    Leaving {
        /// Why.
        code: ErrorCode,
        /// The highest stream that the peer looks at.
        last: u32,
        /// Why, in words of the peer's.
        reason: Piece<'i>,
    },
    /// The time to drain is over. Answer what is still open, send, and close. Servers only.
    DrainOver,
    /// The peer has answered a [`ping`](super::Connection::ping).
    Pong {
        /// The number that was given.
        nonce: u32,
    },
}

impl Event<'_> {
    /// The stream that was reset by either side, if it says so.
    pub(super) fn ends(&self) -> Option<StreamHandle> {
        match *self {
            Self::Reset { stream, .. } | Self::Failed { stream, .. } => Some(stream),
            _ => None,
        }
    }
}
