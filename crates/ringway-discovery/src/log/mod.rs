//! The log of a registry, and its snapshots: files of a folder.
//!
//! | file | content |
//! |---|---|
//! | `lock` | nothing; whoever serves the folder holds a lock on it |
//! | `log-0000000000000007` | changes since snapshot 7, until the next file of the log begins |
//! | `snapshot-0000000000000007` | everything before log 7 |
//!
//! Both begin with a [`Header`](frame::Header) and consist of [frames](frame). A frame of the log is one write: it has
//! the changes of everybody who waited, and is followed by a sync; the next frame tells that. So a frame that is not
//! intact was either not synced, which is cut off at the next start, or is damaged, which is an error that names the file
//! and the place.

mod folder;
mod frame;
mod recovery;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use folder::Folder;
pub(crate) use frame::Ids;
pub(crate) use recovery::{Recovered, recover};
pub(crate) use snapshot::write_snapshot;
pub(crate) use writer::{LogError, Writer};
