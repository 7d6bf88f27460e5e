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
    /// The `_id` of documents that were written because none matched, by the position of their write.
    pub upserted_ids: BTreeMap<usize, Bson>,
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
