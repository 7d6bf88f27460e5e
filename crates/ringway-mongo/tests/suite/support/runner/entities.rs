//! The things that a test names, and its operations on them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, Document};
use ringway_mongo::{
    Client, ClientOptions, ClientSession, Collection, ConnectionString, Database, GridFs,
};
use ringway_runtime::JoinHandle;

use super::super::fault_proxy::Shape;
use super::super::unified::{Entities, documents, matches};
use super::cursors::{Cursors, Use, on_session};
use super::events::{Told, compare};
use super::{Runner, Stop, Why, admin, bucket, client_bulk, crud, failed, watching};

/// How long a client waits for a server that suits, in milliseconds: longer than a busy machine keeps one from answering.
/// A test that wants less says so.
const SELECTION_MS: u32 = 20_000;

struct NamedClient {
    /// `None` when it is closed.
    client: Option<Client>,
    told: Arc<Mutex<Vec<Told>>>,
    used: Arc<Use>,
}

/// The things of one test, by their names.
pub(crate) struct World<'a> {
    runner: &'a Runner<'a>,
    clients: HashMap<String, NamedClient>,
    databases: HashMap<String, Database>,
    /// The clients of databases and collections.
    owners: HashMap<String, String>,
    collections: HashMap<String, Collection<Document>>,
    sessions: HashMap<String, ClientSession>,
    buckets: HashMap<String, GridFs>,
    cursors: Cursors,
    threads: HashMap<String, Option<JoinHandle<Result<(), Why>>>>,
    /// What operations have saved.
    values: Entities,
}

impl<'a> World<'a> {
    pub(crate) fn new(runner: &'a Runner<'a>) -> Self {
        Self {
            runner,
            clients: HashMap::new(),
            databases: HashMap::new(),
            owners: HashMap::new(),
            collections: HashMap::new(),
            sessions: HashMap::new(),
            buckets: HashMap::new(),
            cursors: Cursors::default(),
            threads: HashMap::new(),
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
                let database = self.client_of(fields).database(text("databaseName"));
                self.owners.insert(id.clone(), text("client").to_owned());
                self.databases.insert(id, database);
            }
            "collection" => {
                let things = self.databases[text("database")].collection(text("collectionName"));
                let things = match fields.get_document("collectionOptions") {
                    Ok(options) => with_concerns(&things, options)?,
                    Err(_) => things,
                };
                self.owners.insert(id.clone(), self.owners[text("database")].clone());
                self.collections.insert(id, things);
            }
            "bucket" if !fields.contains_key("bucketOptions") => {
                self.buckets.insert(id, self.databases[text("database")].gridfs());
            }
            "session" => {
                let session = self.client_of(fields).start_session();
                let nothing = Document::new();
                let options = fields.get_document("sessionOptions").unwrap_or(&nothing);
                self.sessions.insert(id, with_options(session, options)?);
            }
            "thread" => drop(self.threads.insert(id, None)),
            other => return Err(failed(format!("the client has no {other} with {fields}"))),
        }
        Ok(())
    }

    /// The client that a thing names.
    fn client_of(&self, fields: &Document) -> &Client {
        let named = &self.clients[fields.get_str("client").expect("a name")];
        named.client.as_ref().expect("it is open")
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
                let is_ignored = event.name() == "configureFailPoint"
                    || ignored.iter().any(|name| name == event.name());
                if wanted.iter().any(|kind| event.is(kind)) && !is_ignored {
                    told.lock().expect("no panic").push(event);
                }
            }
        };
        let note = Arc::new(note);
        let pools = Arc::clone(&note);
        let used = Arc::<Use>::default();
        let (of_commands, of_pools) = (Arc::clone(&used), Arc::clone(&used));
        let options = options.on_command(move |event| {
            of_commands.note_command(event);
            note(Told::command(event));
        });
        let topology = Arc::clone(&pools);
        let options = options.on_topology(move |event| topology(Told::topology(event)));
        let client = Client::new(options.on_pool(move |event| {
            of_pools.note_pool(event);
            pools(Told::pool(event));
        }));
        let _connects = client.servers();
        Ok(NamedClient { client: Some(client), told, used })
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
                "createFindCursor" => {
                    let cursor = operation.get_str("saveResultAsEntity").unwrap_or_default();
                    let used = &self.clients[&self.owners[object]].used;
                    self.cursors.create(cursor, (things, used), arguments, session).await
                }
                "createIndex" | "dropIndex" | "dropIndexes" | "listIndexes" | "listIndexNames" => {
                    admin::on_collection(things, name, arguments, session).await
                }
                _ => crud::on_collection(things, name, arguments, session).await,
            }
        } else if let Some(bucket) = self.buckets.get(object) {
            bucket::run(bucket, name, arguments).await
        } else if let Some(database) = self.databases.get(object) {
            admin::on_database(database, name, arguments, session).await
        } else if let Some(named) = self.clients.get_mut(object).filter(|_| name == "close") {
            drop(named.client.take());
            Ok(Bson::Null)
        } else if let Some(named) = self.clients.get(object) {
            let client = named.client.as_ref().expect("it is open");
            match name {
                "clientBulkWrite" => client_bulk::run(client, arguments, session).await,
                _ => admin::on_client(client, name, arguments, session).await,
            }
        } else if self.cursors.has(object) {
            self.cursors.run(object, name).await
        } else if let Some(session) = self.sessions.get(object).filter(|_| name != "endSession") {
            on_session(session, name, arguments).await
        } else if object.starts_with("session") && name == "endSession" {
            drop(self.sessions.remove(object));
            // What it has goes back in the background.
            ringway_runtime::yield_now().await;
            ringway_runtime::yield_now().await;
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
                let point = arguments.get_document("failPoint").expect("it");
                if self.runner.shape == Shape::LoadBalanced {
                    // What the pool does meanwhile is expected.
                    let admin = self.client_of(arguments).database("admin");
                    admin.run_command(point.clone()).await.expect("the proxy knows it");
                } else {
                    proxy.fail(point);
                }
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
            "waitForEvent" => watching::wait_for_event(self.told(arguments), arguments).await?,
            "assertEventCount" => watching::check_count(self.told(arguments), arguments)?,
            "wait" => watching::wait(arguments).await,
            "runOnThread" => {
                let operation = arguments.get_document("operation").expect("an operation");
                let things = &self.collections[operation.get_str("object").expect("an object")];
                let thread = arguments.get_str("thread").expect("a name").to_owned();
                self.threads.insert(thread, Some(watching::run_apart(things, operation)));
            }
            "waitForThread" => {
                let thread = self.threads.get_mut(arguments.get_str("thread").expect("a name"));
                let thread = thread.expect("it is there").take().expect("it runs");
                thread.await.expect("no panic")?;
            }
            "assertNumberConnectionsCheckedOut" => {
                let named = &self.clients[arguments.get_str("client").expect("a name")];
                named.used.check(arguments.get_i32("connections").expect("a number")).await?;
            }
            "assertSameLsidOnLastTwoCommands" => self.last_two_sessions(arguments, true)?,
            "assertDifferentLsidOnLastTwoCommands" => self.last_two_sessions(arguments, false)?,
            other => return Err(failed(format!("the runner has no {other}"))),
        }
        Ok(())
    }

    fn told(&self, arguments: &Document) -> &Arc<Mutex<Vec<Told>>> {
        &self.clients[arguments.get_str("client").expect("a name")].told
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
    let mut words = Vec::new();
    // A test of monitors has its own period, and the usual one otherwise.
    let is_telling = matches!(runner.shape, Shape::Telling | Shape::TellingSet);
    if !is_telling {
        words.push("heartbeatFrequencyMS=500".to_owned());
    }
    match runner.shape {
        Shape::Single | Shape::Newest | Shape::Telling => {}
        Shape::ReplicaSet | Shape::TellingSet => words.push("replicaSet=rs".to_owned()),
        Shape::LoadBalanced => words.push("loadBalanced=true".to_owned()),
    }
    if given.is_some_and(|it| it.contains_key("waitQueueTimeoutMS")) {
        return Err(failed("the client has no waitQueueTimeoutMS".to_owned()));
    }
    if is_telling && given.is_some_and(|it| it.contains_key("socketTimeoutMS")) {
        return Err(failed("the client has no socketTimeoutMS but that of operations".to_owned()));
    }
    if is_telling
        && given.is_some_and(|it| it.get_str("appname").is_ok_and(|it| it == "extendsTimeoutTest"))
    {
        return Err(failed("its margin is 250 ms".to_owned()));
    }
    let place = match runner.proxy {
        Some(proxy) if client.get_bool("useMultipleMongoses").is_ok_and(|it| !it) => {
            &proxy.place_of_one
        }
        _ => runner.place,
    };
    if !given.is_some_and(|it| it.contains_key("serverSelectionTimeoutMS")) {
        words.push(format!("serverSelectionTimeoutMS={SELECTION_MS}"));
    }
    for (name, value) in given.into_iter().flatten() {
        words.push(format!("{name}={}", value.to_string().trim_matches('"')));
    }
    let uri = format!("mongodb://{place}/?{}", words.join("&"));
    let options = ClientOptions::parse(&uri);
    options.map_err(|error| failed(format!("the client's options: {error}")))
}

pub(crate) fn write_concern(concern: &Document) -> Result<ringway_mongo::WriteConcern, Why> {
    let word =
        |(name, value): (&String, &Bson)| format!("{name}={}", value.to_string().trim_matches('"'));
    let words: Vec<_> = concern.iter().map(word).collect();
    let uri = ConnectionString::parse(&format!("mongodb://a/?{}", words.join("&")));
    let uri = uri.map_err(|error| failed(format!("the write concern: {error}")))?;
    Ok(uri.options.write_concern)
}

fn with_options(mut session: ClientSession, options: &Document) -> Result<ClientSession, Why> {
    for (name, value) in options {
        session = match (&**name, value.as_bool()) {
            ("snapshot", Some(is_snapshot)) => session.snapshot(is_snapshot),
            ("causalConsistency", Some(is_causal)) => session.causal_consistency(is_causal),
            _ => return Err(failed(format!("the client has no session with {name}"))),
        };
    }
    Ok(session)
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
    if let Ok(preference) = options.get_document("readPreference") {
        words.push(format!("readPreference={}", preference.get_str("mode").expect("a mode")));
    }
    let uri = ConnectionString::parse(&format!("mongodb://a/?{}", words.join("&")));
    let uri = uri.map_err(|error| failed(format!("the collection's options: {error}")))?;
    if let Some(concern) = &uri.options.read_concern {
        things = things.read_concern(concern);
    }
    if options.contains_key("timeoutMS") {
        return Err(failed(format!("the client has no collection with {options}")));
    }
    if let Some(preference) = &uri.options.read_preference {
        things = things.read_preference(preference).expect("a mode alone is possible");
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
    compare_parts(expected, error)?;
    match (expected.get("expectResult"), error.bulk()) {
        // Nothing was done, which the test calls unset.
        (Some(Bson::Document(expected)), Some(bulk))
            if bulk.result == ringway_mongo::BulkWriteResult::default()
                && expected.contains_key("$$unsetOrMatches") =>
        {
            Ok(())
        }
        (Some(expected), Some(bulk)) => matches(&Entities::new(), expected, &crud::partly(bulk))
            .map_err(|why| failed(format!("what was done before: {why}"))),
        _ => Ok(()),
    }
}

/// Compares the errors of single writes, and of their concern.
fn compare_parts(expected: &Document, error: &ringway_mongo::Error) -> Result<(), Why> {
    let nothing = ringway_mongo::BulkFailure::default();
    let bulk = error.bulk().unwrap_or(&nothing);
    if let Ok(expected) = expected.get_document("writeErrors") {
        let code = |it: &ringway_mongo::ServerError| (it.index.to_string(), it.code);
        let told: Vec<_> = bulk.write_errors.iter().map(code).collect();
        let code = |(at, it): (&String, &Bson)| {
            (at.clone(), it.as_document().and_then(|it| it.get_i32("code").ok()).unwrap_or(0))
        };
        let mut wanted: Vec<_> = expected.iter().map(code).collect();
        wanted.sort();
        if wanted != told {
            return Err(failed(format!("the writes {wanted:?} were to fail, not {told:?}")));
        }
    }
    let concerns: Vec<_> = documents(expected, "writeConcernErrors").collect();
    let is_it = |(wanted, told): (&&Document, &ringway_mongo::ServerError)| {
        wanted.get_i32("code").is_ok_and(|code| code == told.code)
    };
    let told = &bulk.write_concern_errors;
    let are_same = concerns.len() <= told.len() && concerns.iter().zip(told).all(is_it);
    if are_same { Ok(()) } else { Err(failed(format!("{concerns:?} are expected, not {told:?}"))) }
}

pub(crate) fn timeout(arguments: &Document) -> Option<Duration> {
    let millis = arguments.get("timeoutMS")?;
    let millis = millis.as_i64().or_else(|| millis.as_i32().map(i64::from)).expect("a number");
    Some(match millis {
        0 => Duration::MAX,
        millis => Duration::from_millis(millis.try_into().expect("a time")),
    })
}
