//! Over a slow line the round trip is what takes the time: independent reads go out together on one connection.
//!
//! Run it: `cargo run --release --example mongo_pipeline -- mongodb://db.far.away`.

use std::error::Error;
use std::time::Instant;

use ringway::mongo::bson::{Document, RawDocumentBuf, doc, rawdoc};
use ringway::mongo::{Client, Result};

const PRICES: i32 = 64;

fn find(id: i32) -> RawDocumentBuf {
    let filter = rawdoc! { "_id": id };
    rawdoc! { "find": "prices", "filter": filter, "limit": 1_i64, "singleBatch": true }
}

fn cents(reply: RawDocumentBuf) -> Option<i32> {
    let reply = Document::try_from(reply).ok()?;
    let batch = reply.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.first()?.as_document()?.get_i32("cents").ok()
}

async fn prices(uri: String) -> Result {
    let shop = Client::connect(&uri)?.database("pipeline");
    let prices = shop.collection::<Document>("prices");
    prices.delete_many(doc! {}).await?;
    let documents: Vec<_> = (0..PRICES).map(|id| doc! { "_id": id, "cents": id * 10 }).collect();
    prices.insert_many(&documents).await?;

    let begun = Instant::now();
    let mut sum = 0;
    for id in 0..PRICES {
        let found = prices.find_one(doc! { "_id": id }).await?;
        sum += found.and_then(|price| price.get_i32("cents").ok()).unwrap_or_default();
    }
    let one_by_one = begun.elapsed();
    println!("one by one: {sum}");

    let begun = Instant::now();
    let mut pipeline = shop.pipeline().depth(PRICES as usize);
    for id in 0..PRICES {
        pipeline.push(find(id))?;
    }
    let mut sum = 0;
    for reply in pipeline.await? {
        // Each command has its own answer or error.
        sum += cents(reply?).unwrap_or_default();
    }
    println!("pipelined: {sum}");
    let gain = one_by_one.as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("times as fast: {gain:.1}");
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    Ok(ringway::runtime::block_on(prices(uri))??)
}
