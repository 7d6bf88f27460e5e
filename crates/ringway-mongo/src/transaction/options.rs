//! What a transaction may be told.

use bson::RawDocumentBuf;

use crate::error::{Error, Result};
use crate::uri::{ReadConcern, WriteConcern};

/// The settings of a transaction. Its reads are answered by the primary, whatever the client's preference.
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    pub(super) read_concern: Option<RawDocumentBuf>,
    pub(super) write_concern: Option<RawDocumentBuf>,
}

impl TransactionOptions {
    /// Those of the client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Sets which members must confirm the commit.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): the concern cannot be encoded.
    pub fn write_concern(mut self, concern: &WriteConcern) -> Result<Self, Error> {
        self.write_concern = Some(crate::options::write_concern(concern)?);
        Ok(self)
    }
}
