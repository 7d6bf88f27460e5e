//! The documents that `ringway serve mongo-responder` makes up, and that `--fill` writes.

use mongodb::bson::{Document, RawDocument};
use serde::{Deserialize, Serialize};

pub(super) const DATABASE: &str = "ringway_bench";
pub(super) const READ: &str = "books";
pub(super) const WRITTEN: &str = "written";

/// Documents of one batch.
pub(super) const BATCH_LEN: i32 = 1000;

/// Different batches, so that a reply to another request is noticed.
pub(super) const BATCHES: i32 = 8;

/// Documents that can be read.
pub(super) const BOOKS: i32 = BATCHES * BATCH_LEN;

/// Documents of one command of `bulk`.
pub(super) const BULK_LEN: usize = 100;

/// The code of a failure that the responder has planned.
pub(super) const PLANNED_CODE: i32 = 777_000;

/// A document of some 110 bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Book {
    #[serde(rename = "_id")]
    id: i32,
    batch: i32,
    check: i32,
    title: String,
    price: f64,
    is_lent: bool,
}

impl Book {
    pub(super) fn new(id: i32) -> Self {
        Self {
            id,
            batch: batch(id),
            check: check(id),
            title: title(id).to_owned(),
            price: f64::from(id) / 4.0,
            is_lent: id % 3 == 0,
        }
    }

    /// Whether it is the one with this number.
    pub(super) fn is(&self, id: i32) -> bool {
        self.id == id && self.check == check(id) && self.title == title(id)
    }
}

/// Whether a document is the one with this number: its first three fields, which tell it from all others.
pub(super) fn is_raw_book(document: &RawDocument, id: i32) -> bool {
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

pub(super) fn is_owned_book(document: &Document, id: i32) -> bool {
    document.get_i32("_id").ok() == Some(id) && document.len() == BOOK_FIELDS
}

const BOOK_FIELDS: usize = 6;

fn batch(id: i32) -> i32 {
    id.rem_euclid(BOOKS) / BATCH_LEN
}

fn check(id: i32) -> i32 {
    id.wrapping_mul(0x19E3_779B).rotate_left(7)
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
