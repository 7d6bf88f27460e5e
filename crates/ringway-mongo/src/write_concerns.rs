//! The field `writeConcern` of commands, as it is sent.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// Whether a write concern has a time of its own.
pub(crate) fn has_time(concern: &RawDocument) -> bool {
    matches!(concern.get("wtimeout"), Ok(Some(_)))
}

/// Whether a write concern asks for no answer.
pub(crate) fn is_unanswered(concern: &RawDocument) -> bool {
    matches!(concern.get("w"), Ok(Some(RawBsonRef::Int32(0))))
}

/// A write concern without a time of its own; `None` if nothing is left. Specification: Client Side Operations Timeout,
/// "Deprecations".
pub(crate) fn without_time(concern: &RawDocument) -> Option<RawDocumentBuf> {
    let mut timeless = RawDocumentBuf::new();
    let fields = concern.iter().flatten().filter(|(key, _)| key.as_str() != "wtimeout");
    fields.for_each(|(key, value)| timeless.append(key, value));
    (!timeless.is_empty()).then_some(timeless)
}
