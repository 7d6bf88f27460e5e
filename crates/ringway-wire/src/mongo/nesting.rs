//! The depth of documents.

use bson::RawDocument;
use bson::raw::RawIter;
use bson::spec::ElementType;

use super::fault::MongoFault;
use super::limits::MONGO_NESTING_MAX;

/// Fewest bytes of a level: its type, the end of its name, its length and its end.
const LEVEL_LEN_MIN: usize = 1 + 1 + 4 + 1;

/// Checks that a document has at most [`NESTING_MAX`](super::NESTING_MAX) levels, and that all of it is
/// BSON as far as lengths go, unless it is too short to have more levels.
///
/// Decoders of owned values and of serde recurse, so a deeper document would use up their stack. Reading
/// a [`RawDocument`] field by field does not.
///
/// # Errors
/// [`MongoFault::Nesting`], [`MongoFault::Document`].
pub fn check_nesting(document: &RawDocument) -> Result<(), MongoFault> {
    if document.as_bytes().len() < MONGO_NESTING_MAX * LEVEL_LEN_MIN {
        return Ok(());
    }
    check(document.iter_elements(), MONGO_NESTING_MAX - 1)
}

/// Checks one level, which may have so many levels in it. It recurses as decoders do, in far less stack, and so takes no
/// memory for a document that is in order.
fn check(level: RawIter<'_>, levels_left: usize) -> Result<(), MongoFault> {
    for element in level {
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
        let Some(left) = levels_left.checked_sub(1) else {
            return Err(MongoFault::Nesting { max: MONGO_NESTING_MAX });
        };
        let value = element.value().map_err(|_| MongoFault::Document("a part of a reply"))?;
        let inner = match (value.as_document(), value.as_array()) {
            (Some(inner), _) => Some(inner.iter_elements()),
            (None, Some(array)) => Some(array.iter_elements()),
            (None, None) => value.as_javascript_with_scope().map(|code| code.scope.iter_elements()),
        };
        inner.map_or(Ok(()), |inner| check(inner, left))?;
    }
    Ok(())
}
