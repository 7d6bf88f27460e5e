//! The ways for texts.

use ringway_wire::jsonrpc::Lines;

use super::post::Post;
use super::socket::Socket;

#[derive(Debug)]
pub(super) enum TextCarrier {
    /// A text on each line, at any time.
    Lines(Lines),
    /// The content of a POST, and its answer.
    Post(Box<Post>),
    /// A text in each message of a WebSocket, at any time once it is open.
    Socket(Box<Socket>),
}
