//! A collection of a type of your own, used on a core: operations cross no thread.
//!
//! Run it: `cargo run --release --example mongo_typed -- mongodb://127.0.0.1`.

use std::error::Error;

use ringway::mongo::bson::{Document, doc};
use ringway::mongo::{Client, IndexModel, Result, ReturnDocument};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Account {
    #[serde(rename = "_id")]
    name: String,
    cents: i64,
}

async fn accounts(uri: String) -> Result {
    let bank = Client::connect(&uri)?.database("typed");
    let accounts = bank.collection::<Account>("accounts");
    accounts.delete_many(doc! {}).await?;
    accounts.create_index(IndexModel::new(doc! { "cents": 1 })).await?;

    let account = |(name, cents): (&str, i64)| Account { name: name.into(), cents };
    let opened = [("ada", 500), ("grace", 1200), ("edsger", 40)].map(account);
    println!("opened: {}", accounts.insert_many(&opened).await?.inserted);

    // The server changes a document and returns it in one step.
    let paid =
        accounts.find_one_and_update(doc! { "_id": "ada" }, doc! { "$inc": { "cents": 250 } });
    let paid = paid.return_document(ReturnDocument::After).await?;
    println!("paid: {paid:?}");

    let rich = accounts.find(doc! { "cents": { "$gte": 500 } }).sort(doc! { "cents": -1 }).await?;
    for account in rich.collect().await? {
        println!("{} has {}", account.name, account.cents);
    }

    // The same collection with another type. A document that does not fit is an error that names the field.
    let loose = accounts.with_type::<Document>();
    loose.insert_one(&doc! { "_id": "odd", "cents": "a lot" }).await?;
    match accounts.find_one(doc! { "_id": "odd" }).await {
        Err(error) if error.is_document() => println!("does not fit: {error}"),
        outcome => println!("unexpected: {outcome:?}"),
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    Ok(ringway::runtime::block_on(accounts(uri))??)
}
