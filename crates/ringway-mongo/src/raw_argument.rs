//! Documents as arguments: filters, updates, commands.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::error::{Error, Result};

/// A document that a caller has, in one of the forms in which it may be: owned or borrowed, decoded or as
/// bytes.
pub trait IntoRaw {
    /// The document as bytes.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): a name of a field contains a zero byte.
    fn into_raw(self) -> Result<RawDocumentBuf>;
}

impl IntoRaw for RawDocumentBuf {
    fn into_raw(self) -> Result<RawDocumentBuf> {
        Ok(self)
    }
}

impl IntoRaw for &RawDocumentBuf {
    fn into_raw(self) -> Result<RawDocumentBuf> {
        Ok(self.clone())
    }
}

impl IntoRaw for &RawDocument {
    fn into_raw(self) -> Result<RawDocumentBuf> {
        Ok(self.to_owned())
    }
}

impl IntoRaw for Document {
    fn into_raw(self) -> Result<RawDocumentBuf> {
        RawDocumentBuf::try_from(&self).map_err(Error::encoding)
    }
}

impl IntoRaw for &Document {
    fn into_raw(self) -> Result<RawDocumentBuf> {
        RawDocumentBuf::try_from(self).map_err(Error::encoding)
    }
}
