//! What a server's machine tells.

use super::control::GoAwayFrame;
use super::{Piece, RequestHead, StreamId};

/// What has arrived from a client, or happened to a stream.
#[derive(Debug)]
pub enum ServerEvent<'i> {
    /// A call begins; its first message is complete.
    Request {
        /// Its stream.
        stream: StreamId,
        /// Its fixed fields, with the time that is left from now on.
        head: RequestHead,
        /// Its metadata, for a [`MetaReader`](super::MetaReader).
        meta: Piece<'i>,
        /// Its first message, if it came with one.
        message: Option<Piece<'i>>,
        /// The client sends no more messages.
        end: bool,
    },
    /// A call gave a number to a method, and was answered by the machine or is not complete. The
    /// client will use the number alone, so remember it; there is no call to be answered here.
    Named {
        /// The number.
        method: u32,
        /// Metadata with the name, as in a request.
        meta: Piece<'i>,
    },
    /// Another message of a call.
    Message {
        /// Its stream.
        stream: StreamId,
        /// The whole message.
        message: Piece<'i>,
        /// The client sends no more messages.
        end: bool,
    },
    /// The client sends no more messages.
    End {
        /// Its stream.
        stream: StreamId,
    },
    /// The client gave the call up. It is answered already: drop the handler.
    Cancelled {
        /// Its stream.
        stream: StreamId,
        /// Why, as a status: 1 cancelled, 4 deadline exceeded.
        code: u8,
        /// Why, in words of the client's.
        reason: Piece<'i>,
    },
    /// The call broke a limit or outlived the drain. It is answered already: drop the handler.
    Failed {
        /// Its stream.
        stream: StreamId,
        /// The status it was answered with.
        code: u8,
    },
    /// The stream [has room](super::Server::has_room) again.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// The client opens no more calls.
    PeerLeaving {
        /// A [`GoAwayCode`](super::GoAwayCode) as a number.
        code: u32,
        /// Why, in words of the client's.
        reason: Piece<'i>,
    },
}

/// A request that came whole in one frame with nothing beside its message.
#[derive(Debug)]
pub struct PlainRequest<'i> {
    /// Its stream, on which the client sends nothing more.
    pub stream: StreamId,
    /// Its fixed part.
    pub head: RequestHead,
    /// Its message.
    pub message: &'i [u8],
}

impl<'i> ServerEvent<'i> {
    pub(super) fn leaving(go_away: GoAwayFrame<'i>) -> Self {
        ServerEvent::PeerLeaving { code: go_away.code, reason: go_away.reason }
    }
}
