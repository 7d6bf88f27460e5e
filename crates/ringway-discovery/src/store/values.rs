//! What a store tells of its keys.

use std::fmt;

use bytes::Bytes;

use super::leases::LeaseId;

/// The number of a state of a store. An empty store has revision 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

impl Revision {
    /// The revision of an empty store.
    pub const FIRST: Self = Self(1);

    /// A revision before all that there are.
    pub(super) const BEFORE_ALL: Self = Self(-1);

    /// The revision after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its value at some revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The revision at which the key was created.
    pub create_revision: Revision,
    /// The revision of the last put.
    pub mod_revision: Revision,
    /// The number of puts since the key was created, this one included.
    pub version: i64,
    /// The lease that the key ends with, or [`LeaseId::NONE`].
    pub lease: LeaseId,
    /// The value.
    pub value: Bytes,
}

/// A change of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The revision of the change.
    pub revision: Revision,
    /// The key that changed.
    pub key: Bytes,
    /// The key after the change; `None` if it was deleted.
    pub now: Option<KeyValue>,
    /// The key before the change; `None` if it did not exist, or if its revision was compacted.
    pub before: Option<KeyValue>,
}

/// The revision that was asked for is compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// The first revision that can be read.
    pub first: Revision,
}

/// The reason why a revision cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// It was compacted.
    Compacted,
    /// It has not come yet.
    Future,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compacted => "required revision has been compacted",
            Self::Future => "required revision is a future revision",
        })
    }
}

impl std::error::Error for ReadError {}
