//! Which server an operation needs.

use crate::pool::ServerId;
use crate::reads::Reads;
use crate::uri::HostAddress;

/// Which server an operation needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// One that takes writes.
    Write,
    /// One that suits a read preference; the client's if `None`.
    Read(Option<&'a Reads>),
    /// The one that has a cursor, or behind a load balancer the connection that has a cursor or a transaction.
    At(ServerId),
    /// The router that has a transaction.
    Of(&'a HostAddress),
}
