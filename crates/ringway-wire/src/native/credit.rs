//! The credit of a stream, for whoever looks at it.

/// Bytes that the two ends may still send before they get more credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Credit {
    /// Bytes that the peer accepts now.
    pub to_send: u32,
    /// Bytes that the peer may send now.
    pub to_receive: u32,
}
