//! Many writes in few commands, of which some fail: which, why, and what the others have done.
//!
//! Run it: `cargo run --release --example mongo_bulk -- mongodb://127.0.0.1`.

use ringway::mongo::bson::{Document, doc};
use ringway::mongo::{BulkWriteResult, Client, Collection, Error, Result, Wait, WriteModel};

fn writes() -> [WriteModel; 5] {
    [
        WriteModel::insert_one(&doc! { "_id": 1, "stock": 5 }),
        WriteModel::insert_one(&doc! { "_id": 1, "stock": 6 }), // the _id is taken by then
        WriteModel::insert_one(&doc! { "_id": 2, "stock": 7 }),
        WriteModel::update_one(doc! { "_id": 1 }, doc! { "$inc": { "stock": -1 } }),
        WriteModel::delete_one(doc! { "_id": 2 }),
    ]
}

fn tell(done: &BulkWriteResult) {
    println!("  inserted {}, modified {}, deleted {}", done.inserted, done.modified, done.deleted);
}

fn tell_failure(error: &Error) {
    let Some(failure) = error.bulk() else { return println!("nothing was written: {error}") };
    for failed in &failure.write_errors {
        println!("  write {} failed with code {}", failed.index, failed.code);
    }
    tell(&failure.result);
}

fn main() -> Result {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    let items: Collection<Document> = Client::connect(&uri)?.database("bulk").collection("items");
    for ordered in [true, false] {
        items.delete_many(doc! {}).wait()?;
        // In order, the first failure ends it. Otherwise all are tried.
        println!("ordered: {ordered}");
        match items.bulk_write(writes()).ordered(ordered).wait() {
            Ok(done) => tell(&done),
            Err(error) => tell_failure(&error),
        }
    }
    Ok(())
}
