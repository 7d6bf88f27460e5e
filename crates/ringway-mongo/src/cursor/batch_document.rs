//! The documents within a batch.

use std::ops::Range;

use bson::RawDocument;
use ringway_wire::mongo::MongoFault;

/// The document at `at` within an array of documents that ends with `body`, `None` at its end.
pub(super) fn next_document(body: &[u8], at: usize) -> Result<Option<Range<usize>>, MongoFault> {
    const DOCUMENT: u8 = 3;
    let document = match body.get(at) {
        Some(0) => return Ok(None),
        Some(&DOCUMENT) => named_document(body, at + 1),
        _ => None,
    };
    document.map(Some).ok_or(MongoFault::Document("an entry of a batch"))
}

/// The document behind the name at `name`.
fn named_document(body: &[u8], name: usize) -> Option<Range<usize>> {
    let name_len = body.get(name..)?.iter().position(|byte| *byte == 0)?;
    let begin = name + name_len + 1;
    let len = i32::from_le_bytes(*body.get(begin..)?.first_chunk()?);
    let document = begin..begin.checked_add(usize::try_from(len).ok()?)?;
    RawDocument::from_bytes(body.get(document.clone())?).ok()?;
    Some(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is behind an array is none of its documents, whatever length one of them claims.
    #[test]
    fn a_document_ends_within_its_array() {
        let body = bson::rawdoc! { "batch": [{ "a": 1 }], "b": 2 };
        let array = body.get_array("batch").expect("an array").as_bytes();
        let begin = array.as_ptr().addr() - body.as_bytes().as_ptr().addr();
        let end = begin + array.len();
        let mut bytes = body.as_bytes().to_vec();
        let first = next_document(&bytes[..end], begin + 4).expect("a document").expect("one");
        assert_eq!(next_document(&bytes[..end], first.end).expect("the end"), None);
        // As long as all that is left, whose last byte is the zero of the body.
        let longer = i32::try_from(bytes.len() - first.start).expect("short");
        bytes[first.start..first.start + 4].copy_from_slice(&longer.to_le_bytes());
        assert!(next_document(&bytes[..end], begin + 4).is_err());
        assert!(next_document(&bytes[..end], end).is_err() && next_document(&[], 7).is_err());
    }
}
