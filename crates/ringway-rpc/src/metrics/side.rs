//! The two ends of a call.

/// Which end of the calls is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Calls made.
    Client,
    /// Calls served.
    Server,
}
