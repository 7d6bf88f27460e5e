//! What a transaction may be told.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};

use super::wrong;
use crate::error::{Error, Result};
use crate::uri::{ReadConcern, WriteConcern};
use crate::write_concerns::is_unanswered;

/// The settings of a transaction. Its reads are answered by the primary, whatever the client's preference.
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    pub(super) read_concern: Option<RawDocumentBuf>,
    pub(super) write_concern: Option<RawDocumentBuf>,
    pub(super) max_commit_time: Option<Duration>,
}

impl TransactionOptions {
    /// Those of the client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with the settings of its session where it has none of its own.
    pub(super) fn or(mut self, session: &Self) -> Self {
        self.read_concern = self.read_concern.or_else(|| session.read_concern.clone());
        self.write_concern = self.write_concern.or_else(|| session.write_concern.clone());
        self.max_commit_time = self.max_commit_time.or(session.max_commit_time);
        self
    }

    /// # Errors
    /// Nobody would answer the commit. Specification: Transactions, "Unacknowledged write concern".
    pub(super) fn check(&self, client: Option<&RawDocument>) -> Result {
        let concern = self.write_concern.as_deref().or(client);
        if concern.is_some_and(is_unanswered) {
            return Err(wrong("transactions do not support unacknowledged write concern (w=0)"));
        }
        Ok(())
    }

    /// The same, with the read concern of the client if it has none of its own.
    pub(super) fn or_of_client(mut self, concern: Option<&RawDocumentBuf>) -> Self {
        self.read_concern = self.read_concern.or_else(|| concern.cloned());
        self
    }

    /// Sets what its reads may see, such as a snapshot.
    #[must_use]
    pub fn read_concern(mut self, concern: &ReadConcern) -> Self {
        let document = RawDocumentBuf::try_from(&concern.to_document());
        self.read_concern = Some(document.expect("the level of a read concern is text"));
        self
    }

    /// Sets how long the server works on the commit at most, to the millisecond; without a limit by default.
    #[must_use]
    pub fn max_commit_time(mut self, limit: Duration) -> Self {
        self.max_commit_time = Some(limit);
        self
    }

    /// Sets which members must confirm the commit.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): the concern cannot be encoded.
    pub fn write_concern(mut self, concern: &WriteConcern) -> Result<Self, Error> {
        self.write_concern = Some(crate::options::write_concern(concern)?);
        Ok(self)
    }
}
