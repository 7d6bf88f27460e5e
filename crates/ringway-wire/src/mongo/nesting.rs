//! The depth of documents.

use bson::RawDocument;
use bson::raw::RawIter;
use bson::spec::ElementType;

use super::fault::MongoFault;
use super::limits::MONGO_NESTING_MAX;

/// Checks that a document has at most [`NESTING_MAX`](super::NESTING_MAX) levels, and that all of it is
/// BSON as far as lengths go.
///
/// Decoders of owned values and of serde recurse, so a deeper document would use up their stack. Reading
/// a [`RawDocument`] field by field does not.
///
/// # Errors
/// [`MongoFault::Nesting`], [`MongoFault::Document`].
pub fn check_nesting(document: &RawDocument) -> Result<(), MongoFault> {
    let mut levels: Vec<RawIter<'_>> = vec![document.iter_elements()];
    while let Some(level) = levels.last_mut() {
        let Some(element) = level.next() else {
            levels.pop();
            continue;
        };
        let element = element.map_err(|_| MongoFault::Document("a part of a reply"))?;
        let kind = element.element_type();
        if !matches!(
            kind,
            ElementType::EmbeddedDocument
                | ElementType::Array
                | ElementType::JavaScriptCodeWithScope
        ) {
            continue;
        }
        if levels.len() == MONGO_NESTING_MAX {
            return Err(MongoFault::Nesting { max: MONGO_NESTING_MAX });
        }
        let value = element.value().map_err(|_| MongoFault::Document("a part of a reply"))?;
        let inner = match (value.as_document(), value.as_array()) {
            (Some(inner), _) => Some(inner.iter_elements()),
            (None, Some(array)) => Some(array.iter_elements()),
            (None, None) => value.as_javascript_with_scope().map(|code| code.scope.iter_elements()),
        };
        levels.extend(inner);
    }
    Ok(())
}
