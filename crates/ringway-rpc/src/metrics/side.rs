//! The two sides of a call.

/// The side that counts a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The client, which makes calls.
    Client,
    /// The server, which serves calls.
    Server,
}
