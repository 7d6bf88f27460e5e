//! 100,000 documents are read through a cursor, which has one batch of them in memory at a time.
//!
//! Run it: `cargo run --release --example mongo_cursor -- mongodb://127.0.0.1`.

use std::error::Error;

use ringway::mongo::bson::{RawDocumentBuf, doc, rawdoc};
use ringway::mongo::{Client, Result};

const DOCUMENTS: i32 = 100_000;
/// Documents of one command that writes.
const WRITTEN: i32 = 5_000;

async fn read_all(uri: String) -> Result {
    let measures =
        Client::connect(&uri)?.database("cursor").collection::<RawDocumentBuf>("measures");
    measures.delete_many(doc! {}).await?;
    let text = "x".repeat(400);
    for first in (0..DOCUMENTS).step_by(WRITTEN as usize) {
        let written = first..first + WRITTEN;
        let document = |number| rawdoc! { "_id": number, "value": number % 7, "text": &*text };
        measures.insert_many(&written.map(document).collect::<Vec<_>>()).await?;
    }
    let before = memory_kib();

    let (mut count, mut sum, mut bytes) = (0, 0, 0);
    let mut cursor = measures.find(doc! {}).batch_size(1_000).await?;
    while cursor.advance().await? {
        // Borrowed from the batch: nothing is decoded but what is asked for.
        let document = cursor.current();
        sum += document.get_i32("value").unwrap_or_default();
        bytes += document.as_bytes().len();
        count += 1;
    }
    println!("documents: {count}");
    println!("sum: {sum}");
    println!("KiB of documents: {}", bytes / 1024);
    println!("KiB more than before at the most: {}", memory_kib() - before);
    Ok(())
}

/// The most memory that this process has had, in KiB.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.trim().split(' ').next()?.parse().ok());
    number.unwrap_or_default()
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    Ok(ringway::runtime::block_on(read_all(uri))??)
}
