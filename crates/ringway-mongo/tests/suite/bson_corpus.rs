//! The specification's corpus of BSON: each of its documents comes in a reply, and is read as a user reads it.

use std::fmt::Debug;
use std::sync::Arc;

use bson::{Document, RawDocumentBuf, doc};
use ringway_mongo::{Client, Collection};
use serde_json::Value;

use crate::support::fake::{Answer, Fake};
use crate::support::{client, on_core, specs};

/// What the file of a document says of it.
enum Verdict {
    /// It is well formed; what it is when it is written again.
    Valid(Vec<u8>),
    /// It cannot be decoded.
    Malformed,
}

struct Case {
    name: String,
    bytes: Vec<u8>,
    verdict: Verdict,
}

#[test]
fn each_document_is_read_or_refused() {
    let Some(files) = specs::files("bson_corpus") else { return };
    let cases: Arc<Vec<Case>> = Arc::new(files.iter().flat_map(cases_of).collect());
    let is_valid = |case: &&Case| matches!(case.verdict, Verdict::Valid(_));
    let valid = cases.iter().filter(is_valid).count();
    let malformed = cases.len() - valid;
    println!("bson_corpus: {valid} documents are read, {malformed} are refused");
    assert!(valid > 100 && malformed > 50, "{valid} and {malformed}: the corpus is not whole");

    let served = Arc::clone(&cases);
    let fake = Fake::serve(move |command| {
        let filter = command.body.get_document("filter");
        match filter.and_then(|filter| filter.get_i32("case")) {
            Ok(number) => Answer::Bytes(reply_with(command.id, &served[number as usize].bytes)),
            Err(_) => Answer::Reply(doc! { "ok": 1.0 }),
        }
    });
    let address = fake.address.clone();
    on_core(async move {
        let client = client(&address);
        let mut failed = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            if let Err(why) = check(&client, number as i32, case).await {
                failed.push(format!("{}: {why}", case.name));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

async fn check(client: &Client, number: i32, case: &Case) -> Result<(), String> {
    let documents: Collection<Document> = client.database("d").collection("c");
    let find = || documents.find(doc! { "case": number });
    let find_one = || documents.find_one(doc! { "case": number });
    match &case.verdict {
        Verdict::Valid(canonical) => {
            let by_cursor = find().await.map_err(text)?.next().await.map_err(text)?;
            for found in [find_one().await.map_err(text)?, by_cursor] {
                let found = found.ok_or("it did not come")?;
                let written = RawDocumentBuf::try_from(&found).map_err(text)?;
                if written.as_bytes() != canonical {
                    return Err(format!("it is another one when it is written again: {found}"));
                }
            }
            let raw = documents.with_type::<RawDocumentBuf>().find_one(doc! { "case": number });
            let raw = raw.await.map_err(text)?.ok_or("it did not come")?;
            if raw.as_bytes() == case.bytes { Ok(()) } else { Err("its bytes differ".into()) }
        }
        Verdict::Malformed => {
            if !case.name.contains(GARBAGE_BEHIND) {
                refused(find_one().await)?;
            }
            match find().await {
                Ok(cursor) => refused(cursor.collect().await)?,
                Err(error) => refused::<()>(Err(error))?,
            }
            client.database("d").ping().await.map_err(text)
        }
    }
}

/// The document is well formed, and what follows it is for whoever reads on: `find_one` takes the first document alone.
const GARBAGE_BEHIND: &str = "Stated length less than byte count, with garbage after envelope";

fn refused<T: Debug>(outcome: ringway_mongo::Result<T>) -> Result<(), String> {
    match outcome {
        Err(error) if error.is_document() || error.is_protocol() => Ok(()),
        other => Err(format!("it was not refused for what it is: {other:?}")),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn cases_of((file, whole): &(String, Value)) -> Vec<Case> {
    let list = |key: &str| whole[key].as_array().cloned().unwrap_or_default();
    let name = |test: &Value| format!("{file}: {}", test["description"]);
    let mut cases = Vec::new();
    for test in list("valid") {
        let canonical = bytes(&test["canonical_bson"]).expect("each valid document has it");
        let mut add = |bytes| {
            let verdict = Verdict::Valid(canonical.clone());
            cases.push(Case { name: name(&test), bytes, verdict });
        };
        add(canonical.clone());
        bytes(&test["degenerate_bson"]).into_iter().for_each(add);
    }
    for test in list("decodeErrors") {
        let bytes = bytes(&test["bson"]).expect("each malformed document has it");
        cases.push(Case { name: name(&test), bytes, verdict: Verdict::Malformed });
    }
    cases
}

/// Bytes that are written in hexadecimal digits.
fn bytes(digits: &Value) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(pair, 16).expect("digits")
    };
    Some(digits.as_str()?.as_bytes().chunks(2).map(pair).collect())
}

/// The reply to the command `to` with a document that need not be well formed; all around it is. Another document
/// comes after it, so that no byte behind it could be its end.
fn reply_with(to: i32, document: &[u8]) -> Vec<u8> {
    let batch = in_document(&[b"\x030\0", document, b"\x031\0\x05\0\0\0\0"].concat());
    let namespace = b"\x02ns\0\x04\0\0\0d.c\0";
    let cursor = [b"\x12id\0\0\0\0\0\0\0\0\0".as_slice(), namespace, b"\x04firstBatch\0", &batch];
    let cursor = in_document(&cursor.concat());
    let ok = b"\x10ok\0\x01\0\0\0";
    let body = in_document(&[b"\x03cursor\0", &cursor[..], ok].concat());
    let len = 16 + 4 + 1 + body.len();
    let header = [len as i32, 1, to, 2013, 0];
    let mut out: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
    out.push(0);
    out.extend(body);
    out
}

fn in_document(elements: &[u8]) -> Vec<u8> {
    let len = 4 + elements.len() + 1;
    [&(len as i32).to_le_bytes(), elements, &[0]].concat()
}
