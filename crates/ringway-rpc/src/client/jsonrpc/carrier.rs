//! The ways for texts.

use ringway_wire::jsonrpc::Lines;

use super::post::Post;

#[derive(Debug)]
pub(super) enum TextCarrier {
    /// A text on each line, at any time.
    Lines(Lines),
    /// The content of a POST, and its answer.
    Post(Box<Post>),
}
