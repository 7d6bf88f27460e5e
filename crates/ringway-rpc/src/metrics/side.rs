//! The two ends of a call.

/// The end of the calls that is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Calls made.
    Client,
    /// Calls served.
    Server,
}
