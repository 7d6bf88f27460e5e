//! Events of requests that are no calls.

use crate::http2::Texts;
use crate::native::Piece;

/// Something that has happened to a request that is no call.
#[derive(Debug)]
pub enum GuestEvent<'i> {
    /// The request begins. Answer it by [`guest_head`](super::GrpcServer::guest_head), unless it ends
    /// before.
    Head {
        /// All its fields; their names, values and pseudo-fields are well-formed (RFC 9113, section
        /// 8), but for what HTTP itself demands of paths and hosts.
        texts: Box<Texts>,
        /// Whether fields are missing, because there are more than the server accepts.
        is_cut: bool,
        /// The first part of its content, if it came at once; otherwise empty.
        data: Piece<'i>,
        /// Whether the client sends nothing more.
        end: bool,
    },
    /// A part of its content. The client gets credit for it when it is
    /// [taken](super::GrpcServer::guest_taken).
    Data {
        /// The bytes; empty only if `end` is set.
        data: Piece<'i>,
        /// Whether the client sends nothing more.
        end: bool,
    },
    /// More of the answer [may be sent](super::GrpcServer::guest_has_room).
    Writable,
    /// The request is over: by its client, or by the machine.
    Gone,
}
