//! Documents as arguments: filters, updates, commands.

use bson::raw::RawBson;
use bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf};

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

/// An update as an argument: a document of operators such as `$set`, or the stages of a pipeline.
pub trait IntoUpdate {
    /// The update as the server takes it.
    ///
    /// # Errors
    /// [`is_document`](Error::is_document): a name of a field contains a zero byte, or there is no operator.
    fn into_update(self) -> Result<RawBson>;
}

impl<D: IntoRaw> IntoUpdate for D {
    fn into_update(self) -> Result<RawBson> {
        let update = self.into_raw()?;
        match begins_with_operator(&update) {
            true => Ok(RawBson::Document(update)),
            false => Err(Error::encoding(
                "an update begins with an operator such as `$set`; to put a whole document, use `replace_one`",
            )),
        }
    }
}

impl<S: IntoRaw> IntoUpdate for Vec<S> {
    fn into_update(self) -> Result<RawBson> {
        match self.is_empty() {
            true => Err(Error::encoding("an update by a pipeline has at least one stage")),
            false => array(self),
        }
    }
}

/// Checks that a replacement is none of operators.
pub(crate) fn replacement(document: RawDocumentBuf) -> Result<RawBson> {
    match begins_with_operator(&document) {
        true => Err(Error::encoding(
            "a replacement is a whole document; to use operators such as `$set`, use `update_one`",
        )),
        false => Ok(RawBson::Document(document)),
    }
}

fn begins_with_operator(document: &RawDocument) -> bool {
    let first = document.iter().next();
    first.is_some_and(|first| first.is_ok_and(|(key, _)| key.as_str().starts_with('$')))
}

/// Documents as an array.
pub(crate) fn array<S: IntoRaw>(documents: impl IntoIterator<Item = S>) -> Result<RawBson> {
    let mut array = RawArrayBuf::new();
    for document in documents {
        array.push(document.into_raw()?);
    }
    Ok(RawBson::Array(array))
}
