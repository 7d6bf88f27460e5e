//! Operations on clients, databases and indexes.

use bson::{Bson, Document};
use ringway_mongo::{Client, ClientSession, Collection, Database, IndexModel};

use super::super::unified::documents;
use super::{Done, Stop, has_only};

pub(crate) async fn on_client(client: &Client, name: &str, arguments: &Document) -> Done {
    has_only(name, arguments, &["filter"])?;
    let filter = arguments.get_document("filter").cloned().unwrap_or_default();
    match name {
        "listDatabases" | "listDatabaseObjects" => Ok(array(client.list_databases(filter).await?)),
        "listDatabaseNames" => Ok(client.list_database_names().await?.into()),
        "createChangeStream" => {
            let stages = documents(arguments, "pipeline").cloned();
            client.watch().pipeline(stages).await?;
            Ok(Bson::Null)
        }
        other => Err(Stop::Missing(format!("Client::{other}"))),
    }
}

pub(crate) async fn on_database(
    database: &Database,
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    if session.is_some() {
        return Err(Stop::Missing(format!("Database::{name} in a session")));
    }
    let text = |name| arguments.get_str(name).expect("a text");
    match name {
        "aggregate" => {
            has_only(name, arguments, &["pipeline"])?;
            let stages = documents(arguments, "pipeline").cloned();
            Ok(array(database.aggregate(stages).await?.collect().await?))
        }
        "runCommand" => {
            has_only(name, arguments, &["command", "commandName"])?;
            let command = named_first(arguments);
            let reply = database.run_command(command).await?;
            Ok(Document::try_from(&reply).expect("BSON").into())
        }
        "dropCollection" => {
            has_only(name, arguments, &["collection"])?;
            database.collection::<Document>(text("collection")).drop().await?;
            Ok(Bson::Null)
        }
        "createCollection" => {
            let mut create = database.create_collection(text("collection"));
            for (option, value) in arguments.iter().filter(|(name, _)| *name != "collection") {
                create = create.option(option, value.clone());
            }
            create.await?;
            Ok(Bson::Null)
        }
        "listCollections" | "listCollectionObjects" => {
            has_only(name, arguments, &["filter"])?;
            let filter = arguments.get_document("filter").cloned().unwrap_or_default();
            Ok(array(database.list_collections(filter).await?.collect().await?))
        }
        "listCollectionNames" => {
            has_only(name, arguments, &["filter"])?;
            Ok(database.list_collection_names().await?.into())
        }
        "createChangeStream" => {
            has_only(name, arguments, &["pipeline"])?;
            database.watch().pipeline(documents(arguments, "pipeline").cloned()).await?;
            Ok(Bson::Null)
        }
        other => Err(Stop::Missing(format!("Database::{other}"))),
    }
}

pub(crate) async fn on_collection(
    things: &Collection<Document>,
    name: &str,
    arguments: &Document,
) -> Done {
    match name {
        "createIndex" => {
            has_only(name, arguments, &["keys", "name"])?;
            let mut index = IndexModel::new(arguments.get_document("keys").expect("keys").clone());
            if let Ok(name) = arguments.get_str("name") {
                index = index.name(name);
            }
            Ok(things.create_index(index).await?.into())
        }
        "dropIndex" => {
            has_only(name, arguments, &["name"])?;
            things.drop_index(arguments.get_str("name").expect("a name")).await?;
            Ok(Bson::Null)
        }
        "dropIndexes" => {
            has_only(name, arguments, &[])?;
            things.drop_indexes().await?;
            Ok(Bson::Null)
        }
        _ => {
            has_only(name, arguments, &[])?;
            Ok(array(things.list_indexes().await?.collect().await?))
        }
    }
}

/// The command, whose first field is its name: JSON's objects have lost their order.
fn named_first(arguments: &Document) -> Document {
    let mut given = arguments.get_document("command").expect("a command").clone();
    let mut command = Document::new();
    let name = arguments.get_str("commandName").unwrap_or_default();
    command.extend(given.remove(name).map(|value| (name.to_owned(), value)));
    command.extend(given);
    command
}

fn array(documents: Vec<Document>) -> Bson {
    documents.into_iter().map(Bson::from).collect::<Vec<_>>().into()
}
