//! What commands are for.

use crate::deployment::Wanted;
use crate::pool::ServerId;
use crate::reads::Reads;

/// What a command does to the server's data, and whether the specifications of retries let it be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Read,
    /// Such as a command that the user has written, whatever it does. The server that takes writes gets it, unless it has a
    /// read preference of its own.
    ReadOnce,
    /// A command about a cursor, for the server that has it.
    Cursor(ServerId),
    Write,
    /// Such as a write to many documents at once, or of collections and indexes.
    WriteOnce,
    /// A write that the server does not answer (`w=0`).
    Unanswered,
}

impl Purpose {
    pub(super) fn wanted(self, reads: Option<&Reads>) -> Wanted<'_> {
        match self {
            Self::Read => Wanted::Read(reads),
            Self::Cursor(server) => Wanted::At(server),
            // A command of the user goes elsewhere if the user says so.
            Self::ReadOnce if reads.is_some() => Wanted::Read(reads),
            Self::ReadOnce | Self::Write | Self::WriteOnce | Self::Unanswered => Wanted::Write,
        }
    }

    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteOnce)
    }
}
