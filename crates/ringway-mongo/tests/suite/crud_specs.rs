//! The specification's tests of CRUD, on FerretDB.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bson::{Bson, Document, doc};
use ringway_mongo::{Client, ClientOptions, Collection, CommandPhase, ConnectionString};

use crate::support::crud::{Stop, on_collection, on_database, partly};
use crate::support::ferret::Ferret;
use crate::support::unified::{Entities, documents, json, matches};
use crate::support::{on_core, options, specs};

/// Tests that pass; of pymongo 4.15.4, 151 do, the same and three of a method that this client does not have.
const PASSED: usize = 148;

/// What says that a test fails because of something else than this client's work, and what that is.
const REASONS: [(&str, &str); 8] = [
    ("is not implemented yet", "FerretDB does not have it"),
    ("are not supported yet", "FerretDB does not update by stages"),
    ("is the wrong type", "FerretDB does not update by stages, and takes texts as comments only"),
    ("invalid key:", "FerretDB refuses such names of fields"),
    ("must specify a collection name or 1", "FerretDB aggregates collections only"),
    ("FerretDB has no", "FerretDB does not fail on demand"),
    ("upsertedIds: there is no", "FerretDB counts only what it upserts"),
    (
        "the client has no",
        "this client does not have the method: `count` is deprecated, some are of MongoDB 8.0",
    ),
];

/// Why a test does not pass.
enum Why {
    /// The test is not for such a server.
    NotForThisServer,
    Failed(String),
}

/// A command that was started.
struct Started {
    name: String,
    database: String,
    command: Document,
}

struct Runner {
    address: String,
    setup: Client,
}

#[test]
fn specification_passes_where_the_server_allows() {
    let Some(files) = specs::files("crud/unified") else { return };
    let Some(ferret) = Ferret::start() else { return };
    on_core(async move {
        ferret.is_up().await;
        let setup = Client::new(options(&ferret.address));
        let runner = Runner { address: ferret.address.clone(), setup };
        let (mut passed, mut other, mut failed) = (0, 0, Vec::new());
        for (name, file) in files {
            let file = json(&file);
            for test in documents(&file, "tests") {
                let title = format!("{name}: {}", test.get_str("description").expect("a name"));
                match runner.run(&file, test).await {
                    Ok(()) => passed += 1,
                    Err(Why::NotForThisServer) => other += 1,
                    Err(Why::Failed(why)) => failed.push((title, why)),
                }
            }
        }
        let has_reason = |why: &str| REASONS.iter().any(|(part, _)| why.contains(part));
        let strange: Vec<_> = failed.iter().filter(|(_, why)| !has_reason(why)).collect();
        assert!(strange.is_empty(), "{strange:#?}");
        for (part, reason) in REASONS {
            let count = failed.iter().filter(|(_, why)| why.contains(part)).count();
            println!("crud: {count} failed: {reason}");
            assert!(count > 0, "nothing fails because of \"{part}\" any more: {reason}");
        }
        println!("crud: {passed} passed, {} failed, {other} are for other servers", failed.len());
        assert_eq!(passed, PASSED);
    });
}

impl Runner {
    async fn run(&self, file: &Document, test: &Document) -> Result<(), Why> {
        for place in [file, test] {
            let requirements: Vec<_> = documents(place, "runOnRequirements").collect();
            if !requirements.is_empty() && !requirements.iter().any(|it| is_met(it)) {
                return Err(Why::NotForThisServer);
            }
        }
        self.prepare(file).await?;
        let started = Arc::default();
        let entity = Entity::make(file, &self.address, &started)?;
        for operation in documents(test, "operations") {
            entity.check(operation).await?;
        }
        for expected in documents(test, "expectEvents") {
            compare_events(expected, &started.lock().expect("no panic"))?;
        }
        for outcome in documents(test, "outcome") {
            self.compare_outcome(outcome).await?;
        }
        Ok(())
    }

    async fn prepare(&self, file: &Document) -> Result<(), Why> {
        for data in documents(file, "initialData") {
            let things = self.collection(data);
            let prepared = async {
                things.drop().await?;
                let initial: Vec<_> = documents(data, "documents").cloned().collect();
                if !initial.is_empty() {
                    things.insert_many(&initial).await?;
                }
                Ok::<_, ringway_mongo::Error>(())
            };
            prepared
                .await
                .map_err(|error| failed(format!("the data cannot be stored: {error}")))?;
        }
        Ok(())
    }

    async fn compare_outcome(&self, outcome: &Document) -> Result<(), Why> {
        let found = self.collection(outcome).find(doc! {}).sort(doc! { "_id": 1 }).await;
        let found = match found {
            Ok(found) => found.collect().await,
            Err(error) => Err(error),
        };
        let found =
            found.map_err(|error| failed(format!("the outcome cannot be read: {error}")))?;
        let found: Bson = found.into_iter().map(Bson::from).collect::<Vec<_>>().into();
        let same = matches(&Entities::new(), &outcome["documents"], &found);
        same.map_err(|why| failed(format!("the outcome: {why}")))
    }

    fn collection(&self, data: &Document) -> Collection<Document> {
        let text = |name| data.get_str(name).expect("a name");
        self.setup.database(text("databaseName")).collection(text("collectionName"))
    }
}

/// What the operations of a test are done with. The tests of CRUD have one client and one database.
struct Entity {
    database: ringway_mongo::Database,
    /// By their names in the test.
    collections: HashMap<String, Collection<Document>>,
}

impl Entity {
    fn make(
        file: &Document,
        address: &str,
        started: &Arc<Mutex<Vec<Started>>>,
    ) -> Result<Self, Why> {
        let entity = |kind| {
            let found = documents(file, "createEntities").find_map(|it| it.get_document(kind).ok());
            found.ok_or_else(|| failed(format!("it has no {kind}")))
        };
        let options = client_options(address, entity("client")?)?;
        let heard = Arc::clone(started);
        let client = Client::new(options.on_command(move |event| {
            if let CommandPhase::Started { command } = event.phase {
                heard.lock().expect("no panic").push(Started {
                    name: event.name.to_owned(),
                    database: event.database.to_owned(),
                    command: Document::try_from(command).expect("BSON"),
                });
            }
        }));
        let database = client.database(entity("database")?.get_str("databaseName").expect("it"));
        let mut collections = HashMap::new();
        for entity in documents(file, "createEntities") {
            let Ok(collection) = entity.get_document("collection") else { continue };
            let text = |name| collection.get_str(name).expect("a name");
            let mut things = database.collection(text("collectionName"));
            if let Ok(options) = collection.get_document("collectionOptions") {
                things = with_concerns(&things, options)?;
            }
            collections.insert(text("id").to_owned(), things);
        }
        Ok(Self { database, collections })
    }

    async fn check(&self, operation: &Document) -> Result<(), Why> {
        let nothing = Document::new();
        let arguments = operation.get_document("arguments").unwrap_or(&nothing);
        let object = operation.get_str("object").expect("an object");
        let name = operation.get_str("name").expect("a name");
        let result = match object {
            "testRunner" => return Err(failed(format!("FerretDB has no {name}"))),
            _ if let Some(things) = self.collections.get(object) => {
                on_collection(things, name, arguments).await
            }
            _ if object.starts_with("database") => {
                on_database(&self.database, name, arguments).await
            }
            _ => Err(Stop::Missing(format!("{object}: {name}"))),
        };
        match (result, operation.get_document("expectError")) {
            (Err(Stop::Missing(what)), _) => Err(failed(format!("the client has no {what}"))),
            (Ok(result), Ok(_)) => Err(failed(format!("{name} did not fail: {result}"))),
            (Ok(result), Err(_)) => match operation.get("expectResult") {
                Some(expected) => matches(&Entities::new(), expected, &result)
                    .map_err(|why| failed(format!("the result of {name}: {why}"))),
                None => Ok(()),
            },
            (Err(Stop::Failed(error)), Ok(expected)) => compare_errors(expected, &error),
            (Err(Stop::Failed(error)), Err(_)) => Err(failed(format!("{name}: {error}"))),
        }
    }
}

fn failed(why: String) -> Why {
    Why::Failed(why)
}

fn client_options(address: &str, client: &Document) -> Result<ClientOptions, Why> {
    let mut words = Vec::new();
    for (name, value) in client.get_document("uriOptions").into_iter().flatten() {
        words.push(format!("{name}={}", value.to_string().trim_matches('"')));
    }
    let uri = format!("{address}/?{}", words.join("&"));
    let options = ClientOptions::parse(&uri);
    options.map_err(|error| failed(format!("the client's options: {error}")))
}

fn with_concerns(
    things: &Collection<Document>,
    options: &Document,
) -> Result<Collection<Document>, Why> {
    let mut things = things.clone();
    let mut words = Vec::new();
    if let Ok(concern) = options.get_document("writeConcern") {
        for (name, value) in concern {
            words.push(format!("{name}={}", value.to_string().trim_matches('"')));
        }
    }
    if let Ok(concern) = options.get_document("readConcern") {
        words.push(format!("readConcernLevel={}", concern.get_str("level").expect("a level")));
    }
    let uri = ConnectionString::parse(&format!("mongodb://a/?{}", words.join("&")));
    let uri = uri.map_err(|error| failed(format!("the collection's options: {error}")))?;
    if let Some(concern) = &uri.options.read_concern {
        things = things.read_concern(concern);
    }
    let written = things.write_concern(&uri.options.write_concern);
    written.map_err(|error| failed(format!("the collection's options: {error}")))
}

/// Whether FerretDB is such a server: it stands alone and takes itself for MongoDB 7.0.
fn is_met(requirement: &Document) -> bool {
    const VERSION: [u32; 2] = [7, 0];
    let version = |name| -> Option<Vec<u32>> {
        let text = requirement.get_str(name).ok()?;
        Some(text.split('.').map(|part| part.parse().expect("a number")).collect())
    };
    let topologies = requirement.get_array("topologies").ok();
    version("minServerVersion").is_none_or(|least| least[..] <= VERSION[..])
        && version("maxServerVersion").is_none_or(|most| most[..] >= VERSION[..])
        && topologies.is_none_or(|all| all.contains(&"single".into()))
        && requirement.get_str("serverless").ok() != Some("require")
}

fn compare_events(expected: &Document, started: &[Started]) -> Result<(), Why> {
    let events: Vec<_> = documents(expected, "events").collect();
    let names: Vec<_> = started.iter().map(|it| &it.name).collect();
    if events.len() != started.len() {
        return Err(failed(format!("{} commands are expected, not {names:?}", events.len())));
    }
    for (event, started) in events.into_iter().zip(started) {
        let Ok(expected) = event.get_document("commandStartedEvent") else {
            return Err(failed(format!("an event of another kind: {event}")));
        };
        let text = |name| expected.get_str(name).ok();
        if text("commandName").is_some_and(|name| name != started.name)
            || text("databaseName").is_some_and(|name| name != started.database)
        {
            return Err(failed(format!("{event} is expected, not {}", started.name)));
        }
        if let Some(command) = expected.get("command") {
            let same = matches(&Entities::new(), command, &started.command.clone().into());
            same.map_err(|why| failed(format!("the command {}: {why}", started.name)))?;
        }
    }
    Ok(())
}

fn compare_errors(expected: &Document, error: &ringway_mongo::Error) -> Result<(), Why> {
    let is_of_client = error.server().is_none();
    let code = error.server().map(|server| server.code);
    let contains = |part: &str| error.to_string().to_lowercase().contains(&part.to_lowercase());
    let flag = |name| expected.get_bool(name).ok();
    if flag("isClientError").is_some_and(|it| it != is_of_client)
        || expected.get_i32("errorCode").is_ok_and(|it| Some(it) != code)
        || expected.get_str("errorContains").is_ok_and(|part| !contains(part))
    {
        return Err(failed(format!("{expected} is expected, not {error}")));
    }
    match (expected.get("expectResult"), error.bulk()) {
        (Some(expected), Some(bulk)) => matches(&Entities::new(), expected, &partly(bulk))
            .map_err(|why| failed(format!("what was done before: {why}"))),
        _ => Ok(()),
    }
}
