//! What a test says of the server when its operations are over.

use bson::Document;
use ringway_mongo::Client;

use super::{Why, failed};

/// `assertCollectionExists` and `assertCollectionNotExists`
pub(crate) async fn check_collection(
    setup: &Client,
    name: &str,
    arguments: &Document,
) -> Result<(), Why> {
    let text = |name| arguments.get_str(name).expect("a name");
    let names = setup.database(text("databaseName")).list_collection_names().await;
    let names = names.map_err(|error| failed(format!("{name}: {error}")))?;
    let exists = names.iter().any(|it| it == text("collectionName"));
    match exists == (name == "assertCollectionExists") {
        true => Ok(()),
        false => Err(failed(format!("{name}: {names:?}"))),
    }
}

/// `assertIndexExists` and `assertIndexNotExists`
pub(crate) async fn check_index(
    setup: &Client,
    name: &str,
    arguments: &Document,
) -> Result<(), Why> {
    let text = |name| arguments.get_str(name).expect("a name");
    let database = setup.database(text("databaseName"));
    let things = database.collection::<Document>(text("collectionName"));
    let listed = match things.list_indexes().await {
        Ok(listed) => listed.collect().await,
        Err(error) => Err(error),
    };
    let listed = listed.map_err(|error| failed(format!("{name}: {error}")))?;
    let wanted = text("indexName");
    let exists = listed.iter().any(|it| it.get_str("name").is_ok_and(|it| it == wanted));
    match exists == (name == "assertIndexExists") {
        true => Ok(()),
        false => Err(failed(format!("{name}: {listed:?}"))),
    }
}
