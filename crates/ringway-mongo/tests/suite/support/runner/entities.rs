//! The things that a test names, and its operations on them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{
    Client, ClientOptions, ClientSession, Collection, ConnectionString, Database, GridFs,
};

use super::super::fault_proxy::Shape;
use super::super::unified::{Entities, documents, matches};
use super::events::{Told, compare};
use super::{Runner, Stop, Why, admin, bucket, crud, failed};

/// How long a client waits for a server that suits, in milliseconds: longer than a busy machine keeps one from answering.
/// A test that wants less says so.
const SELECTION_MS: u32 = 20_000;

struct NamedClient {
    client: Client,
    told: Arc<Mutex<Vec<Told>>>,
}

/// The things of one test, by their names.
pub(crate) struct World<'a> {
    runner: &'a Runner<'a>,
    clients: HashMap<String, NamedClient>,
    databases: HashMap<String, Database>,
    collections: HashMap<String, Collection<Document>>,
    sessions: HashMap<String, ClientSession>,
    buckets: HashMap<String, GridFs>,
    /// What operations have saved.
    values: Entities,
}

impl<'a> World<'a> {
    pub(crate) fn new(runner: &'a Runner<'a>) -> Self {
        Self {
            runner,
            clients: HashMap::new(),
            databases: HashMap::new(),
            collections: HashMap::new(),
            sessions: HashMap::new(),
            buckets: HashMap::new(),
            values: Entities::new(),
        }
    }

    /// Makes a thing.
    pub(crate) async fn add(&mut self, entity: &Document) -> Result<(), Why> {
        let (kind, fields) = entity.iter().next().expect("a kind");
        let fields = fields.as_document().expect("its fields");
        let text = |name| fields.get_str(name).expect("a text");
        let id = text("id").to_owned();
        match &**kind {
            "client" => {
                let client = self.client(fields)?;
                self.clients.insert(id, client);
            }
            "database" => {
                let NamedClient { client, .. } = &self.clients[text("client")];
                self.databases.insert(id, client.database(text("databaseName")));
            }
            "collection" => {
                let things = self.databases[text("database")].collection(text("collectionName"));
                let things = match fields.get_document("collectionOptions") {
                    Ok(options) => with_concerns(&things, options)?,
                    Err(_) => things,
                };
                self.collections.insert(id, things);
            }
            "bucket" if !fields.contains_key("bucketOptions") => {
                self.buckets.insert(id, self.databases[text("database")].gridfs());
            }
            "session" if !fields.contains_key("sessionOptions") => {
                let session = self.clients[text("client")].client.start_session();
                self.sessions.insert(id, session);
            }
            other => return Err(failed(format!("the client has no {other} with {fields}"))),
        }
        Ok(())
    }

    fn client(&self, fields: &Document) -> Result<NamedClient, Why> {
        let options = client_options(self.runner, fields)?;
        let listed = fields.get_array("observeEvents").map_or(&[][..], Vec::as_slice);
        let wanted: Vec<String> =
            listed.iter().filter_map(Bson::as_str).map(String::from).collect();
        let ignored = fields.get_array("ignoreCommandMonitoringEvents");
        let ignored = ignored.map_or(&[][..], Vec::as_slice);
        let ignored: Vec<String> =
            ignored.iter().filter_map(Bson::as_str).map(String::from).collect();
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let note = {
            let told = Arc::clone(&told);
            move |event: Told| {
                let is_ignored = ignored.iter().any(|name| name == event.name());
                if wanted.iter().any(|kind| event.is(kind)) && !is_ignored {
                    told.lock().expect("no panic").push(event);
                }
            }
        };
        let note = Arc::new(note);
        let pools = Arc::clone(&note);
        let options = options.on_command(move |event| note(Told::command(event)));
        let client = Client::new(options.on_pool(move |event| pools(Told::pool(event))));
        Ok(NamedClient { client, told })
    }

    /// Runs an operation, and compares what becomes of it.
    pub(crate) async fn check(&mut self, operation: &Document) -> Result<(), Why> {
        let name = operation.get_str("name").expect("a name");
        let result = self.run(name, operation).await?;
        if let (Ok(name), Ok(value)) = (operation.get_str("saveResultAsEntity"), &result) {
            self.values.insert(name.to_owned(), value.clone());
        }
        let ignores = operation.get_bool("ignoreResultAndError").unwrap_or_default();
        match (result, operation.get_document("expectError")) {
            (Err(Stop::Missing(what)), _) => Err(failed(format!("the client has no {what}"))),
            _ if ignores => Ok(()),
            (Ok(result), Ok(_)) => Err(failed(format!("{name} did not fail: {result}"))),
            (Ok(result), Err(_)) => match operation.get("expectResult") {
                Some(expected) => matches(&self.values, expected, &result)
                    .map_err(|why| failed(format!("the result of {name}: {why}"))),
                None => Ok(()),
            },
            (Err(Stop::Failed(error)), Ok(expected)) => compare_errors(expected, &error),
            (Err(Stop::Failed(error)), Err(_)) => Err(failed(format!("{name}: {error}"))),
        }
    }

    async fn run(&mut self, name: &str, operation: &Document) -> Result<Result<Bson, Stop>, Why> {
        let nothing = Document::new();
        let arguments = operation.get_document("arguments").unwrap_or(&nothing);
        let object = operation.get_str("object").expect("an object");
        if object == "testRunner" {
            self.direct(name, arguments).await?;
            return Ok(Ok(Bson::Null));
        }
        let session = match arguments.get_str("session") {
            Ok(name) => Some(self.sessions.get(name).ok_or_else(|| failed("no session".into()))?),
            Err(_) => None,
        };
        Ok(if let Some(things) = self.collections.get(object) {
            match name {
                "createIndex" | "dropIndex" | "dropIndexes" | "listIndexes" | "listIndexNames" => {
                    admin::on_collection(things, name, arguments).await
                }
                _ => crud::on_collection(things, name, arguments, session).await,
            }
        } else if let Some(bucket) = self.buckets.get(object) {
            bucket::run(bucket, name, arguments).await
        } else if let Some(database) = self.databases.get(object) {
            admin::on_database(database, name, arguments, session).await
        } else if let Some(named) = self.clients.get(object) {
            admin::on_client(&named.client, name, arguments).await
        } else if object.starts_with("session") && name == "endSession" {
            drop(self.sessions.remove(object));
            Ok(Bson::Null)
        } else {
            Err(Stop::Missing(format!("{object}: {name}")))
        })
    }

    /// Does what a test asks of the one who runs it.
    async fn direct(&mut self, name: &str, arguments: &Document) -> Result<(), Why> {
        match name {
            "failPoint" => {
                let Some(proxy) = self.runner.proxy else {
                    return Err(failed(format!("FerretDB has no {name}")));
                };
                proxy.fail(arguments.get_document("failPoint").expect("it"));
            }
            "createEntities" => {
                for entity in documents(arguments, "entities") {
                    self.add(entity).await?;
                }
            }
            "assertCollectionExists" | "assertCollectionNotExists" => {
                let text = |name| arguments.get_str(name).expect("a name");
                let database = self.runner.setup.database(text("databaseName"));
                let names = database.list_collection_names().await;
                let names = names.map_err(|error| failed(format!("{name}: {error}")))?;
                let exists = names.iter().any(|it| it == text("collectionName"));
                if exists != (name == "assertCollectionExists") {
                    return Err(failed(format!("{name}: {names:?}")));
                }
            }
            "assertSameLsidOnLastTwoCommands" => self.last_two_sessions(arguments, true)?,
            "assertDifferentLsidOnLastTwoCommands" => self.last_two_sessions(arguments, false)?,
            other => return Err(failed(format!("the runner has no {other}"))),
        }
        Ok(())
    }

    fn last_two_sessions(&self, arguments: &Document, are_same: bool) -> Result<(), Why> {
        let named = &self.clients[arguments.get_str("client").expect("a name")];
        let told = named.told.lock().expect("no panic");
        let started: Vec<_> = told.iter().filter(|it| it.is("commandStartedEvent")).collect();
        let [.., one, two] = &started[..] else {
            return Err(failed("there are no two commands".into()));
        };
        match one.session().is_some() && (one.session() == two.session()) == are_same {
            true => Ok(()),
            false => Err(failed(format!("sessions: {:?} and {:?}", one.session(), two.session()))),
        }
    }

    pub(crate) fn compare_events(&self, expected: &Document) -> Result<(), Why> {
        let named = &self.clients[expected.get_str("client").expect("a name")];
        compare(&self.values, expected, &named.told.lock().expect("no panic"))
    }
}

fn client_options(runner: &Runner<'_>, client: &Document) -> Result<ClientOptions, Why> {
    let given = client.get_document("uriOptions").ok();
    let mut words = vec!["heartbeatFrequencyMS=500".to_owned()];
    if runner.shape == Shape::ReplicaSet {
        words.push("replicaSet=rs".to_owned());
    }
    if !given.is_some_and(|it| it.contains_key("serverSelectionTimeoutMS")) {
        words.push(format!("serverSelectionTimeoutMS={SELECTION_MS}"));
    }
    for (name, value) in given.into_iter().flatten() {
        words.push(format!("{name}={}", value.to_string().trim_matches('"')));
    }
    let uri = format!("mongodb://{}/?{}", runner.place, words.join("&"));
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
    if options.contains_key("timeoutMS") || options.contains_key("readPreference") {
        return Err(failed(format!("the client has no collection with {options}")));
    }
    let written = things.write_concern(&uri.options.write_concern);
    written.map_err(|error| failed(format!("the collection's options: {error}")))
}

fn compare_errors(expected: &Document, error: &ringway_mongo::Error) -> Result<(), Why> {
    let is_of_client = error.server().is_none();
    let code = error.server().map(|server| server.code);
    let contains = |part: &str| error.to_string().to_lowercase().contains(&part.to_lowercase());
    let flag = |name| expected.get_bool(name).ok();
    let labels = |name| expected.get_array(name).map_or(&[][..], Vec::as_slice).iter();
    let has = |label: &Bson| error.has_label(label.as_str().expect("a label"));
    if flag("isClientError").is_some_and(|it| it != is_of_client)
        || flag("isTimeoutError").is_some_and(|it| it != error.is_timeout())
        || expected.get_i32("errorCode").is_ok_and(|it| Some(it) != code)
        || expected.get_str("errorContains").is_ok_and(|part| !contains(part))
        || !labels("errorLabelsContain").all(has)
        || labels("errorLabelsOmit").any(has)
    {
        return Err(failed(format!("{expected} is expected, not {error}")));
    }
    match (expected.get("expectResult"), error.bulk()) {
        (Some(expected), Some(bulk)) => matches(&Entities::new(), expected, &crud::partly(bulk))
            .map_err(|why| failed(format!("what was done before: {why}"))),
        _ => Ok(()),
    }
}

pub(crate) fn timeout(arguments: &Document) -> Option<Duration> {
    let millis = arguments.get("timeoutMS")?;
    let millis = millis.as_i64().or_else(|| millis.as_i32().map(i64::from)).expect("a number");
    Some(match millis {
        0 => Duration::MAX,
        millis => Duration::from_millis(millis.try_into().expect("a time")),
    })
}
