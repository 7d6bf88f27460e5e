//! Operations on clients, databases and indexes.

use bson::{Bson, Document};
use ringway_mongo::{
    Client, ClientSession, Collection, CommandCursor, Database, IndexModel, Running,
};

use super::super::unified::documents;
use super::settings::{read_preference, timeout};
use super::{Done, Stop, has_only};

pub(crate) async fn on_client(
    client: &Client,
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    has_only(name, arguments, &["filter", "session", "timeoutMS"])?;
    let filter = arguments.get_document("filter").cloned().unwrap_or_default();
    match name {
        "listDatabases" | "listDatabaseObjects" => {
            let mut list = client.list_databases(filter);
            if let Some(limit) = timeout(arguments) {
                list = list.timeout(limit);
            }
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?))
        }
        "listDatabaseNames" if arguments.contains_key("timeoutMS") => {
            let mut list = client.list_databases(filter).name_only(true);
            list = list.timeout(timeout(arguments).expect("it is there"));
            Ok(array(list.await?))
        }
        _ if session.is_some() => Err(Stop::Missing(format!("Client::{name} in a session"))),
        "listDatabaseNames" => Ok(client.list_database_names().await?.into()),
        other => Err(Stop::Missing(format!("Client::{other}"))),
    }
}

pub(crate) async fn on_database(
    database: &Database,
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    let with_time = timeout(arguments).map(|limit| database.timeout(limit));
    let database = with_time.as_ref().unwrap_or(database);
    if session.is_some()
        && !["runCommand", "runCursorCommand", "listCollections", "createCollection"]
            .contains(&name)
    {
        return Err(Stop::Missing(format!("Database::{name} in a session")));
    }
    let text = |name| arguments.get_str(name).expect("a text");
    match name {
        "aggregate" => {
            has_only(name, arguments, &["pipeline", "timeoutMS"])?;
            let stages = documents(arguments, "pipeline").cloned();
            Ok(array(database.aggregate(stages).await?.collect().await?))
        }
        "runCommand" => {
            let known = ["command", "commandName", "session", "timeoutMS", "readPreference"];
            has_only(name, arguments, &known)?;
            let command = named_first(arguments);
            let mut run = database.run_command(command);
            if let Ok(preference) = arguments.get_document("readPreference") {
                run = run.read_preference(&read_preference(preference));
            }
            let run = match session {
                Some(session) => run.session(session),
                None => run,
            };
            let reply = run.await?;
            Ok(Document::try_from(&reply).expect("BSON").into())
        }
        "runCursorCommand" => {
            let run = cursor_command(database, arguments, session)?;
            Ok(array(run.await?.collect().await?))
        }
        "dropCollection" => {
            has_only(name, arguments, &["collection"])?;
            database.collection::<Document>(text("collection")).drop().await?;
            Ok(Bson::Null)
        }
        "createCollection" => {
            let mut create = database.create_collection(text("collection"));
            let is_option = |name: &str| !["collection", "session", "timeoutMS"].contains(&name);
            for (option, value) in arguments.iter().filter(|(name, _)| is_option(name)) {
                create = create.option(option, value.clone());
            }
            if let Some(session) = session {
                create = create.session(session);
            }
            create.await?;
            Ok(Bson::Null)
        }
        "listCollections" | "listCollectionObjects" => {
            has_only(name, arguments, &["filter", "session", "timeoutMS"])?;
            let filter = arguments.get_document("filter").cloned().unwrap_or_default();
            let list = database.list_collections(filter);
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?.collect().await?))
        }
        "listCollectionNames" => {
            has_only(name, arguments, &["filter", "timeoutMS"])?;
            Ok(database.list_collection_names().await?.into())
        }
        other => Err(Stop::Missing(format!("Database::{other}"))),
    }
}

pub(crate) async fn on_collection(
    (database, things): (&Database, &Collection<Document>),
    name: &str,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Done {
    let with_time = timeout(arguments).map(|limit| things.timeout(limit));
    let things = with_time.as_ref().unwrap_or(things);
    match name {
        "listIndexes" | "listIndexNames" => {
            has_only(name, arguments, &["session", "timeoutMS"])?;
            let list = things.list_indexes();
            let list = match session {
                Some(session) => list.session(session),
                None => list,
            };
            Ok(array(list.await?.collect().await?))
        }
        "createIndex" => {
            has_only(name, arguments, &["keys", "name", "timeoutMS"])?;
            let mut index = IndexModel::new(arguments.get_document("keys").expect("keys").clone());
            if let Ok(name) = arguments.get_str("name") {
                index = index.name(name);
            }
            Ok(things.create_index(index).await?.into())
        }
        "dropIndex" => {
            has_only(name, arguments, &["name", "timeoutMS"])?;
            things.drop_index(arguments.get_str("name").expect("a name")).await?;
            Ok(Bson::Null)
        }
        "rename" => {
            let text = |name| arguments.get_str(name).expect("a name");
            let mut command = Document::new();
            let place = |name| format!("{}.{name}", database.name());
            command.insert("renameCollection", place(things.name()));
            command.insert("to", place(text("to")));
            command.extend(
                arguments
                    .iter()
                    .filter(|(name, _)| *name == "dropTarget")
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
            database.client().database("admin").run_command(command).await?;
            Ok(Bson::Null)
        }
        "dropIndexes" => {
            has_only(name, arguments, &["timeoutMS"])?;
            things.drop_indexes().await?;
            Ok(Bson::Null)
        }
        _ => Err(Stop::Missing(format!("Collection::{name}"))),
    }
}

/// A command of the user whose reply has a cursor.
pub(crate) fn cursor_command(
    database: &Database,
    arguments: &Document,
    session: Option<&ClientSession>,
) -> Result<Running<CommandCursor<Document>>, Stop> {
    let known =
        ["command", "commandName", "session", "timeoutMS", "batchSize", "comment", "maxTimeMS"];
    has_only("runCursorCommand", arguments, &known)?;
    let mut run = database.run_cursor_command(named_first(arguments));
    if let Some(session) = session {
        run = run.session(session);
    }
    if let Some(limit) = timeout(arguments) {
        run = run.timeout(limit);
    }
    if let Ok(size) = arguments.get_i32("batchSize") {
        run = run.batch_size(size.try_into().expect("a size"));
    }
    if let Some(comment) = arguments.get("comment") {
        run = run.comment(comment.clone());
    }
    if let Ok(millis) = arguments.get_i32("maxTimeMS") {
        let millis = millis.try_into().expect("a time");
        run = run.max_await_time(std::time::Duration::from_millis(millis));
    }
    Ok(run)
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
