//! The things that a test names, and its operations on them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bson::{Bson, Document};
use ringway_mongo::{Client, ClientOptions, ClientSession, Collection, Database, GridFs, Watch};
use ringway_runtime::JoinHandle;

use super::super::fault_proxy::Shape;
use super::super::unified::{Entities, documents, lsid_of, matches};
use super::cursors::{Cursors, Use};
use super::errors::compare_errors;
use super::events::{Told, compare};
use super::settings::{client_options, timeout, with_concerns};
use super::streams::Streams;
use super::{
    Done, Runner, Stop, Why, admin, bucket, client_bulk, crud, failed, outcome, sessions, watching,
};

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
    /// The databases of collections.
    homes: HashMap<String, String>,
    sessions: HashMap<String, Rc<ClientSession>>,
    buckets: HashMap<String, GridFs>,
    cursors: Cursors,
    streams: Streams,
    threads: HashMap<String, Option<JoinHandle<Result<(), Why>>>>,
    /// What operations have saved.
    values: Entities,
    /// Whether the operations are those that a transaction runs.
    is_in_callback: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(runner: &'a Runner<'a>) -> Self {
        Self {
            runner,
            clients: HashMap::new(),
            databases: HashMap::new(),
            owners: HashMap::new(),
            collections: HashMap::new(),
            homes: HashMap::new(),
            sessions: HashMap::new(),
            buckets: HashMap::new(),
            cursors: Cursors::default(),
            streams: Streams::default(),
            threads: HashMap::new(),
            values: Entities::new(),
            is_in_callback: false,
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
                let mut database = self.client_of(fields).database(text("databaseName"));
                if let Some(limit) = fields.get_document("databaseOptions").ok().and_then(timeout) {
                    database = database.timeout(limit);
                }
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
                self.homes.insert(id.clone(), text("database").to_owned());
                self.collections.insert(id, things);
            }
            "bucket" if !fields.contains_key("bucketOptions") => {
                self.buckets.insert(id, self.databases[text("database")].gridfs());
            }
            "session" => {
                let session = sessions::make(self.client_of(fields), fields)?;
                self.sessions.insert(id, session);
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
        let sees_secrets = fields.get_bool("observeSensitiveCommands").unwrap_or_default();
        let note = {
            let told = Arc::clone(&told);
            move |event: Told| {
                let is_ignored = event.name() == "configureFailPoint"
                    || ignored.iter().any(|name| name == event.name())
                    || event.is_secret() && !sees_secrets;
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
        self.step(operation).await.map(drop)
    }

    /// The same. Returns the error with which it has failed, also if that was expected.
    async fn step(
        &mut self,
        operation: &Document,
    ) -> Result<Option<Box<ringway_mongo::Error>>, Why> {
        let name = operation.get_str("name").expect("a name");
        let result = self.run(name, operation).await?;
        if let (Ok(name), Ok(value)) = (operation.get_str("saveResultAsEntity"), &result) {
            self.values.insert(name.to_owned(), value.clone());
        }
        let ignores = operation.get_bool("ignoreResultAndError").unwrap_or_default();
        match (result, operation.get_document("expectError")) {
            (Err(Stop::Missing(what)), _) => Err(failed(format!("the client has no {what}"))),
            (Err(Stop::Failed(error)), _) if ignores && self.is_in_callback => Ok(Some(error)),
            _ if ignores => Ok(None),
            (Ok(result), Ok(_)) => Err(failed(format!("{name} did not fail: {result}"))),
            (Ok(result), Err(_)) => match operation.get("expectResult") {
                Some(expected) => matches(&self.values, expected, &result)
                    .map(|()| None)
                    .map_err(|why| failed(format!("the result of {name}: {why}"))),
                None => Ok(None),
            },
            (Err(Stop::Failed(error)), Ok(expected)) => {
                compare_errors(expected, &error).map(|()| Some(error))
            }
            // Of a transaction that is run again, an error is none of the test.
            (Err(Stop::Failed(error)), Err(_)) if self.is_in_callback => Ok(Some(error)),
            (Err(Stop::Failed(error)), Err(_)) => Err(failed(format!("{name}: {error}"))),
        }
    }

    /// `withTransaction`
    async fn with_transaction(
        &mut self,
        session: &ClientSession,
        arguments: &Document,
    ) -> Result<Result<Bson, Stop>, Why> {
        let options = match sessions::transaction_options(arguments) {
            Ok(options) => options,
            Err(stop) => return Ok(Err(stop)),
        };
        let different = Cell::new(None);
        self.is_in_callback = true;
        let runner = Cell::new(Some(&mut *self));
        let done = session.with_transaction(options, async |_| {
            let this = runner.take().expect("it runs once at a time");
            let done = this.call_back(arguments, &different).await;
            runner.set(Some(this));
            done
        });
        let done = done.await;
        self.is_in_callback = false;
        match different.into_inner() {
            Some(why) => Err(why),
            None => Ok(done.map(|()| Bson::Null).map_err(Stop::from)),
        }
    }

    /// Runs the operations of a transaction. What went otherwise than the test expects is put into `different`.
    async fn call_back(
        &mut self,
        arguments: &Document,
        different: &Cell<Option<Why>>,
    ) -> ringway_mongo::Result {
        for operation in documents(arguments, "callback") {
            match Box::pin(self.step(operation)).await {
                Ok(None) => {}
                Ok(Some(error)) => return Err(*error),
                Err(why) => {
                    different.set(Some(why));
                    return Err(ClientOptions::parse("no address").expect_err("it is none"));
                }
            }
        }
        Ok(())
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
            Ok(name) => {
                Some(&**self.sessions.get(name).ok_or_else(|| failed("no session".into()))?)
            }
            Err(_) => None,
        };
        let saved = operation.get_str("saveResultAsEntity").unwrap_or_default();
        if name == "createChangeStream" {
            let watch = self.watch(object);
            return Ok(self.streams.create(saved, watch, arguments, session).await);
        }
        if let Some(session) = self.sessions.get(object).filter(|_| name == "withTransaction") {
            let session = Rc::clone(session);
            return self.with_transaction(&session, arguments).await;
        }
        Ok(if let Some(things) = self.collections.get(object) {
            match name {
                "createFindCursor" => {
                    let used = &self.clients[&self.owners[object]].used;
                    self.cursors.create(saved, (things, used), arguments, session).await
                }
                "createIndex" | "dropIndex" | "dropIndexes" | "listIndexes" | "listIndexNames"
                | "rename" => {
                    let of = (&self.databases[&self.homes[object]], things);
                    admin::on_collection(of, name, arguments, session).await
                }
                _ => crud::on_collection(things, name, arguments, session).await,
            }
        } else if let Some(bucket) = self.buckets.get(object) {
            bucket::run(bucket, name, arguments).await
        } else if let Some(database) = self.databases.get(object) {
            match name {
                "createCommandCursor" => {
                    let used = &self.clients[&self.owners[object]].used;
                    let command = admin::cursor_command(database, arguments, session);
                    self.cursors.keep(saved, used, command).await
                }
                _ => admin::on_database(database, name, arguments, session).await,
            }
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
        } else if self.streams.has(object) {
            self.streams.run(object, name).await
        } else if let Some(session) = self.sessions.get(object).filter(|_| name != "endSession") {
            sessions::run(session, name, arguments).await
        } else if object.starts_with("session") && name == "endSession" {
            self.end_session(object).await
        } else {
            Err(Stop::Missing(format!("{object}: {name}")))
        })
    }

    /// What a collection, a database or a client watches.
    fn watch(&self, object: &str) -> Watch<Document> {
        match (self.collections.get(object), self.databases.get(object)) {
            (Some(things), _) => things.watch(),
            (_, Some(database)) => database.watch(),
            _ => self.clients[object].client.as_ref().expect("it is open").watch(),
        }
    }

    async fn end_session(&mut self, name: &str) -> Done {
        self.note_sessions();
        drop(self.sessions.remove(name));
        // What it has goes back in the background.
        ringway_runtime::yield_now().await;
        ringway_runtime::yield_now().await;
        Ok(Bson::Null)
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
            "targetedFailPoint" => {
                let proxy = self.runner.proxy.expect("a sharded cluster");
                let router = self.session(arguments).router();
                let router = router.ok_or_else(|| failed("no router is pinned".to_owned()))?;
                let point = arguments.get_document("failPoint").expect("it");
                proxy.fail_at(&router.to_string(), point);
            }
            "assertSessionPinned" | "assertSessionUnpinned" | "assertSessionTransactionState" => {
                sessions::check(self.session(arguments), name, arguments)?;
            }
            "assertIndexExists" | "assertIndexNotExists" => {
                outcome::check_index(&self.runner.setup, name, arguments).await?;
            }
            "createEntities" => {
                for entity in documents(arguments, "entities") {
                    self.add(entity).await?;
                }
            }
            "assertCollectionExists" | "assertCollectionNotExists" => {
                outcome::check_collection(&self.runner.setup, name, arguments).await?;
            }
            "waitForEvent" => watching::wait_for_event(self.told(arguments), arguments).await?,
            "assertEventCount" => watching::check_count(self.told(arguments), arguments)?,
            "wait" => watching::wait(arguments).await,
            "runOnThread" => {
                let operation = arguments.get_document("operation").expect("an operation");
                let object = operation.get_str("object").expect("an object");
                let Some(things) = self.collections.get(object) else {
                    return Err(failed(format!("the runner has no threads for {object}")));
                };
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

    fn session(&self, arguments: &Document) -> &ClientSession {
        &self.sessions[arguments.get_str("session").expect("a name")]
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

    /// Saves what the server knows the sessions by.
    pub(crate) fn note_sessions(&mut self) {
        for (name, session) in &self.sessions {
            if let Some(id) = session.id() {
                self.values.insert(lsid_of(name), bson::doc! { "id": id }.into());
            }
        }
    }

    pub(crate) fn compare_events(&self, expected: &Document) -> Result<(), Why> {
        let named = &self.clients[expected.get_str("client").expect("a name")];
        compare(&self.values, expected, &named.told.lock().expect("no panic"))
    }
}
