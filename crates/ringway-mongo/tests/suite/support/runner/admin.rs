//! Operations on clients, databases and indexes.

use bson::{Bson, Document};
use ringway_mongo::{Client, ClientSession, Collection, Database, IndexModel};

use super::super::unified::documents;
use super::{Done, Stop, has_only};

pub(crate) async fn on_client(
    client: &Client,
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    has_only(name, arguments, &["filter", "session"])?;
    let filter = arguments.get_document("filter").cloned().unwrap_or_default();
    match name {
        "listDatabases" | "listDatabaseObjects" => {
            let list = client.list_databases(filter);
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?))
        }
        _ if session.is_some() => Err(Stop::Missing(format!("Client::{name} in a session"))),
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
    if session.is_some() && !["runCommand", "listCollections"].contains(&name) {
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
            has_only(name, arguments, &["command", "commandName", "session"])?;
            let command = named_first(arguments);
            let run = database.run_command(command);
            let run = match session {
                Some(session) => run.session(session),
                None => run,
            };
            let reply = run.await?;
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
            has_only(name, arguments, &["filter", "session"])?;
            let filter = arguments.get_document("filter").cloned().unwrap_or_default();
            let list = database.list_collections(filter);
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?.collect().await?))
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
    session: Option<&ClientSession>,
) -> Done {
    match name {
        "listIndexes" | "listIndexNames" => {
            has_only(name, arguments, &["session"])?;
            let list = things.list_indexes();
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?.collect().await?))
        }
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
        _ => Err(Stop::Missing(format!("Collection::{name}"))),
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
