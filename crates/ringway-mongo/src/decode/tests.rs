use std::collections::BTreeMap;
use std::fmt::Debug;

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Bson, DateTime, RawBson, Timestamp, doc};
use serde::{Deserialize, Deserializer};

use super::quick;

/// Everything that a type can ask a deserializer for.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed only")]
struct Book {
    #[serde(rename = "_id")]
    id: ObjectId,
    title: String,
    pages: i32,
    sold: i64,
    price: f64,
    is_lent: bool,
    printed: DateTime,
    note: Option<String>,
    shelf: Shelf,
    scores: Vec<f64>,
    pair: (i32, String),
    #[serde(default, deserialize_with = "or_default")]
    odd: i32,
    any: Bson,
    #[serde(flatten)]
    rest: BTreeMap<String, Bson>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed only")]
enum Shelf {
    Lost,
    At(i32),
    Between(i32, i32),
    Room { name: String },
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed only")]
#[serde(untagged)]
enum Untagged {
    Number { value: i32 },
    Text { value: String },
    Time { value: DateTime },
}

/// Takes an error for an answer, as the types of users do.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

fn book(shelf: impl Into<Bson>, odd: impl Into<Bson>, any: impl Into<Bson>) -> Vec<u8> {
    let book = doc! {
        "_id": ObjectId::from_bytes(*b"twelve bytes"), "title": "Emma", "pages": 474, "sold": 1_i64 << 40,
        "price": 12.5, "is_lent": true, "printed": DateTime::from_millis(-1), "note": Bson::Null,
        "shelf": shelf.into(), "scores": [1.0, 2.5], "pair": [7, "seven"], "odd": odd.into(), "any": any.into(),
        "more": { "in": [1, { "it": "deep" }] }, "last": "one",
    };
    book.to_vec().expect("BSON")
}

/// What bson says, and what we say; equal unless we give up.
fn both<T: serde::de::DeserializeOwned + Debug>(document: &[u8]) -> Option<T> {
    let theirs: Result<T, _> = bson::deserialize_from_slice(document);
    let ours: Option<T> = quick::decode(document);
    if let Some(ours) = &ours {
        // As text, because not every number is equal to itself.
        assert_eq!(format!("{:?}", Ok::<_, ()>(ours)), format!("{theirs:?}"), "{document:?}");
    }
    ours
}

#[test]
fn a_document_is_decoded_as_bson_decodes_it() {
    let shelves = [
        Bson::from("Lost"),
        doc! { "At": 3 }.into(),
        doc! { "Between": [1, 2] }.into(),
        doc! { "Room": { "name": "attic" } }.into(),
    ];
    for shelf in shelves {
        let any = [Bson::from("text"), doc! { "a": [true, 1.5] }.into(), Bson::Null];
        for any in any {
            let whole = book(shelf.clone(), 5, any);
            assert_eq!(both::<Book>(&whole).expect("nothing is seldom in it").odd, 5);
            both::<Bson>(&whole).expect("nothing is seldom in it");
            both::<BTreeMap<String, Bson>>(&whole).expect("nothing is seldom in it");
        }
    }
    for value in [Bson::from(1), Bson::from("one"), DateTime::from_millis(7).into()] {
        let value = doc! { "value": value }.to_vec().expect("BSON");
        both::<Untagged>(&value).expect("nothing is seldom in it");
    }
}

#[test]
fn an_error_that_a_type_takes_for_an_answer_is_one_of_the_type() {
    let wrong = book("Lost", "not a number", 1);
    assert_eq!(both::<Book>(&wrong).expect("the type's own answer").odd, 0);
    // The value itself is one that we do not know: the answer would be wrong.
    let seldom = book("Lost", Timestamp { time: 1, increment: 2 }, 1);
    assert!(both::<Book>(&seldom).is_none());
}

#[test]
fn seldom_values_and_raw_fields_are_left_to_bson() {
    let seldom = doc! { "value": Bson::MaxKey }.to_vec().expect("BSON");
    assert!(both::<Bson>(&seldom).is_none());
    let plain = doc! { "value": 1 }.to_vec().expect("BSON");
    assert!(both::<BTreeMap<String, RawBson>>(&plain).is_none());
    assert!(both::<BTreeMap<String, bson::Uuid>>(&plain).is_none());
    let bytes = bson::Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
    let uuid = doc! { "value": bytes }.to_vec().expect("BSON");
    assert!(both::<Bson>(&uuid).is_none());
}

#[test]
fn a_document_that_is_cut_or_changed_anywhere_is_never_decoded_otherwise() {
    let bytes = bson::Binary { subtype: BinarySubtype::Generic, bytes: b"bytes".to_vec() };
    let whole = book(doc! { "Room": { "name": "attic" } }, 5, doc! { "a": [true, bytes] });
    for len in 0..whole.len() {
        assert!(both::<Book>(&whole[..len]).is_none() && both::<Bson>(&whole[..len]).is_none());
    }
    let mut decoded = 0;
    for at in 0..whole.len() {
        for change in [1, 2, 4, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] ^= change;
            decoded += usize::from(both::<Book>(&changed).is_some());
            decoded += usize::from(both::<Bson>(&changed).is_some());
        }
    }
    assert!(decoded > 100, "{decoded} changes were such that the document is still one");
}
