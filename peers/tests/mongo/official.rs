//! What docs/mongo.md says of MongoDB's driver in its section "Coming from the official driver", as a program.

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use mongodb::options::{CursorType, IndexOptions, ReturnDocument};
use mongodb::{Client, IndexModel};
use serde::{Deserialize, Serialize};
use tokio_stream::StreamExt;

#[derive(Serialize, Deserialize)]
struct Book {
    title: String,
    year: i32,
}

fn filter() -> Document {
    doc! { "title": "Emma" }
}

fn set() -> Document {
    doc! { "$set": { "year": 1816 } }
}

fn keys() -> Document {
    doc! { "title": 1 }
}

async fn all_of_it(uri: &str) -> Result<()> {
    let client = Client::with_uri_str(uri).await?;
    let books = client.database("shop").collection::<Book>("books");
    let emma = Book { title: "Emma".into(), year: 1815 };
    let several = [Book { title: "Persuasion".into(), year: 1817 }];
    let id = books.insert_one(&emma).await?.inserted_id;
    let ids = books.insert_many(&several).await?.inserted_ids;
    println!("{id}, {ids:?}");

    let found = books.find_one(doc! { "title": "Emma" }).await?;
    println!("{:?}", found.map(|book| book.year));
    let mut cursor = books.find(doc! {}).cursor_type(CursorType::TailableAwait).await?;
    while let Some(book) = cursor.try_next().await? {
        println!("{}", book.title);
    }

    let matched = books.update_one(filter(), set()).upsert(true).await?.matched_count;
    let after =
        books.find_one_and_update(filter(), set()).return_document(ReturnDocument::After).await?;
    println!("{matched}, {}", after.is_some());
    client.bulk_write([books.insert_one_model(&emma)?]).await?;

    let mut session = client.start_session().snapshot(true).await?;
    println!("{}", books.count_documents(filter()).session(&mut session).await?);
    let shop = client.database("shop");
    let find = doc! { "find": "books", "filter": filter() };
    let plan = shop.run_command(doc! { "explain": find, "verbosity": "executionStats" }).await?;
    println!("{plan}");
    let unique = IndexOptions::builder().unique(true).build();
    books.create_index(IndexModel::builder().keys(keys()).options(unique).build()).await?;
    let upload = shop.gridfs_bucket(None).open_upload_stream("emma.txt").await?;
    println!("{}", upload.id());
    client.shutdown().await;
    Ok(())
}

fn on_a_plain_thread(uri: &str) -> Result<Option<Book>> {
    let client = mongodb::sync::Client::with_uri_str(uri)?;
    client.database("shop").collection("books").find_one(filter()).run()
}
