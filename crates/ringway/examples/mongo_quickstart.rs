//! MongoDB from a plain thread: documents are written, found, changed, counted and removed.
//!
//! Run it: `cargo run --release --example mongo_quickstart -- mongodb://127.0.0.1`.

use ringway::mongo::bson::{Document, doc};
use ringway::mongo::{Client, Result, Wait};

fn main() -> Result {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    // Nothing is connected yet. One client serves all threads, cores and tasks of a process.
    let client = Client::connect(&uri)?;
    let books = client.database("quickstart").collection::<Document>("books");
    books.delete_many(doc! {}).wait()?;

    books.insert_one(&doc! { "_id": 1, "title": "Emma", "year": 1815 }).wait()?;
    books.insert_one(&doc! { "_id": 2, "title": "Middlemarch", "year": 1871 }).wait()?;
    println!(
        "found: {:?}",
        books.find_one(doc! { "title": "Emma" }).wait()?.map(|book| book.len())
    );

    // An error of a write is an error, and says whether the server may have done it all the same.
    match books.insert_one(&doc! { "_id": 1, "title": "Emma again" }).wait() {
        Err(error) if error.is_duplicate_key() => println!("refused: the _id is taken"),
        outcome => println!("unexpected: {outcome:?}"),
    }

    let later = doc! { "$inc": { "year": 1 } };
    println!("changed: {}", books.update_many(doc! {}, later).wait()?.modified);
    let mut cursor = books.find(doc! {}).sort(doc! { "year": 1 }).wait()?;
    while let Some(book) = cursor.next().wait()? {
        println!("{}", book);
    }
    println!("removed: {}", books.delete_one(doc! { "title": "Emma" }).wait()?.deleted);
    println!("left: {}", books.count_documents(doc! {}).wait()?);
    Ok(())
}
