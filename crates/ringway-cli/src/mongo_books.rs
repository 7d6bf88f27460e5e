//! The documents of `bench mongo`: what the responder answers and what the bench compares.

use ringway_mongo::bson::RawDocument;
use ringway_wire::mongo::CommandWriter;
use serde::{Deserialize, Serialize};

/// The database of the bench, and its collections: one that is read, one that is written.
pub(crate) const DATABASE: &str = "ringway_bench";
pub(crate) const READ: &str = "books";
pub(crate) const WRITTEN: &str = "written";

/// Documents of one batch.
pub(crate) const BATCH_LEN: i32 = 1000;

/// Different batches, so that an answer to another request is noticed.
pub(crate) const BATCHES: i32 = 8;

/// Documents that can be read.
pub(crate) const BOOKS: i32 = BATCHES * BATCH_LEN;

/// Documents of one command of `bulk`.
pub(crate) const BULK_LEN: usize = 100;

/// One command in so many fails, with this code, which no server has.
pub(crate) const PLANNED_EVERY: u64 = 10_000;
pub(crate) const PLANNED_CODE: i32 = 777_000;

/// A document with the fields of a common one: 108 to 120 bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Book {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    pub(crate) batch: i32,
    pub(crate) check: i32,
    pub(crate) title: String,
    pub(crate) price: f64,
    pub(crate) is_lent: bool,
}

impl Book {
    pub(crate) fn new(id: i32) -> Self {
        Self {
            id,
            batch: batch(id),
            check: check(id),
            title: title(id).to_owned(),
            price: price(id),
            is_lent: id % 3 == 0,
        }
    }

    /// Whether it is the one with this number.
    pub(crate) fn is(&self, id: i32) -> bool {
        self.id == id && self.check == check(id) && self.title == title(id)
    }

    /// Writes the same document without making it.
    pub(crate) fn write(id: i32, out: &mut CommandWriter<'_>) {
        out.i32("_id", id);
        out.i32("batch", batch(id));
        out.i32("check", check(id));
        out.str("title", title(id));
        out.f64("price", price(id));
        out.bool("is_lent", id % 3 == 0);
    }
}

/// Whether a document is the one with this number: its first three fields, which tell it from all others.
pub(crate) fn is_book(document: &RawDocument, id: i32) -> bool {
    let expected = [id, batch(id), check(id)];
    let mut rest = &document.as_bytes()[4..];
    FRONT.iter().zip(expected).all(|(name, number)| {
        let value = rest.strip_prefix(*name).and_then(<[u8]>::split_first_chunk);
        value.is_some_and(|(value, behind)| {
            rest = behind;
            i32::from_le_bytes(*value) == number
        })
    })
}

/// The types and names of the first fields of a book, which are numbers.
const FRONT: [&[u8]; 3] = [b"\x10_id\0", b"\x10batch\0", b"\x10check\0"];

fn batch(id: i32) -> i32 {
    id.rem_euclid(BOOKS) / BATCH_LEN
}

fn check(id: i32) -> i32 {
    id.wrapping_mul(0x19E3_779B).rotate_left(7)
}

fn price(id: i32) -> f64 {
    f64::from(id) / 4.0
}

fn title(id: i32) -> &'static str {
    TITLES[id.unsigned_abs() as usize % TITLES.len()]
}

const TITLES: [&str; 4] = [
    "Emma, a novel in three volumes",
    "The Life and Opinions of a Gentleman",
    "Middlemarch, a study of life",
    "The Mill on the Floss",
];

#[cfg(test)]
mod tests {
    use ringway_mongo::bson;

    use super::*;

    #[test]
    fn both_ways_to_write_a_book_agree() {
        for id in [0, 1, 999, 7999] {
            let written = CommandWriter::document_of(|out| Book::write(id, out));
            let encoded = bson::serialize_to_raw_document_buf(&Book::new(id)).expect("a document");
            assert_eq!(written, encoded);
            assert!(is_book(&written, id) && !is_book(&written, id + 1));
        }
    }
}
