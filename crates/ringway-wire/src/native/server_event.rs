//! Events of the server machine.

use super::control::GoAwayFrame;
use super::{Piece, RequestHead, StreamId};
use crate::grpc::GuestEvent;
use crate::http2::StreamHandle;

/// Something that arrived from the client, or that happened to a stream.
#[derive(Debug)]
pub enum ServerEvent<'i> {
    /// A call starts; its first message is complete.
    Request {
        /// The stream.
        stream: StreamId,
        /// The call's fixed fields, with the time that is left from now on.
        head: RequestHead,
        /// The call's metadata; read it with a [`MetaReader`](super::MetaReader).
        meta: Piece<'i>,
        /// The first message, if the request contains one.
        message: Option<Piece<'i>>,
        /// Whether the client sends no more messages.
        end: bool,
    },
    /// A call assigned a number to a method name, but is incomplete or was answered by the machine.
    /// Remember the number, since the client will send it alone from now on; there is no call to
    /// answer.
    Named {
        /// The number.
        method: u32,
        /// Metadata with the name, as in a request.
        meta: Piece<'i>,
    },
    /// Another message of a call arrived.
    Message {
        /// The stream.
        stream: StreamId,
        /// The whole message.
        message: Piece<'i>,
        /// Whether the client sends no more messages.
        end: bool,
    },
    /// The client sends no more messages.
    End {
        /// The stream.
        stream: StreamId,
    },
    /// The client cancelled the call. It is already answered: drop the handler.
    Cancelled {
        /// The stream.
        stream: StreamId,
        /// The status: 1 cancelled, 4 deadline exceeded.
        code: u8,
        /// The client's reason, as text.
        reason: Piece<'i>,
    },
    /// The call broke a limit or outlived the drain. It is already answered: drop the handler.
    Failed {
        /// The stream.
        stream: StreamId,
        /// The status with which it was answered.
        code: u8,
    },
    /// The stream [may send](super::Server::has_room) again.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// The client sent GOAWAY: it opens no more calls.
    PeerLeaving {
        /// The GOAWAY code; see [`GoAwayCode`](super::GoAwayCode).
        code: u32,
        /// The client's reason, as text.
        reason: Piece<'i>,
    },
    /// Something of a request that is no call, from a machine that
    /// [reports](crate::grpc::GrpcServer::host_guests) those.
    Guest {
        /// The stream.
        stream: StreamHandle,
        /// What it is.
        event: GuestEvent<'i>,
    },
}

/// A request that arrived complete in one frame, without metadata.
#[derive(Debug)]
pub struct PlainRequest<'i> {
    /// The stream, on which the client sends nothing more.
    pub stream: StreamId,
    /// The call's fixed fields.
    pub head: RequestHead,
    /// The message.
    pub message: &'i [u8],
}

impl<'i> ServerEvent<'i> {
    pub(super) fn leaving(go_away: GoAwayFrame<'i>) -> Self {
        ServerEvent::PeerLeaving { code: go_away.code, reason: go_away.reason }
    }
}
