//! What has become of many writes.

use std::collections::BTreeMap;

use bson::Bson;

use crate::error::ServerError;

/// What many writes have done.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// Documents that were inserted.
    pub inserted: u64,
    /// Documents that matched the filter of an update or a replacement.
    pub matched: u64,
    /// Documents that are different now.
    pub modified: u64,
    /// Documents that are gone.
    pub deleted: u64,
    /// Documents that were written because none matched.
    pub upserted: u64,
    /// Their `_id`, by the position of their write. Those of [`Client::bulk_write`](crate::Client::bulk_write) are there if
    /// [`verbose_results`](crate::ClientBulkWrite::verbose_results) are.
    pub upserted_ids: BTreeMap<usize, Bson>,
    /// The `_id` of each document that was inserted, by the position of its write: of [`Error::bulk`](crate::Error::bulk) only,
    /// after a failure of [`insert_many`](crate::Collection::insert_many) or
    /// [`bulk_write`](crate::Collection::bulk_write). A write that was not answered is not among them.
    pub inserted_ids: BTreeMap<usize, Bson>,
    /// What each write has done, by its position, if
    /// [`verbose_results`](crate::ClientBulkWrite::verbose_results) are wanted.
    pub outcomes: BTreeMap<usize, WriteOutcome>,
}

/// What one of many writes has done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// A document was inserted.
    Inserted {
        /// Its `_id`.
        id: Bson,
    },
    /// Documents were updated, or one was replaced.
    Updated {
        /// Documents that matched the filter; 1 if one was written because none did.
        matched: u64,
        /// Documents that are different now.
        modified: u64,
        /// The `_id` of the document that was written because none matched.
        upserted_id: Option<Bson>,
    },
    /// Documents were removed.
    Deleted {
        /// How many.
        deleted: u64,
    },
}

/// What has become of many writes of which some failed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkFailure {
    /// The writes that failed, each with its [position](ServerError::index).
    pub write_errors: Vec<ServerError>,
    /// Writes that were done, but not confirmed as their write concern demands.
    pub write_concern_errors: Vec<ServerError>,
    /// What the others have done.
    pub result: BulkWriteResult,
}

impl BulkFailure {
    /// Whether no write was answered.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
