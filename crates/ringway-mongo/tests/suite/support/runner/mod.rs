//! Runs the specifications' tests of the unified format on FerretDB, or on a double of the tests.

mod admin;
mod bucket;
mod client_bulk;
mod crud;
mod cursors;
mod entities;
mod errors;
mod events;
mod outcome;
mod sessions;
mod settings;
mod streams;
mod watching;

use std::thread;

use bson::{Bson, Document, doc};
use ringway_mongo::{Client, Collection};

use self::entities::World;
use super::fault_proxy::{FaultProxy, Shape};
use super::ferret::Ferret;
use super::mongod::Mongod;
use super::unified::{Entities, documents, json, matches};
use super::{options, specs, suite_on_core};

/// Why a test does not pass.
pub(crate) enum Why {
    /// The test is not for such a server.
    NotForThisServer,
    Failed(String),
}

/// Why an operation of a test was not run, or failed.
pub(crate) enum Stop {
    Failed(Box<ringway_mongo::Error>),
    /// The client has nothing of that name, or of such arguments.
    Missing(String),
}

impl From<ringway_mongo::Error> for Stop {
    fn from(error: ringway_mongo::Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

type Done = std::result::Result<Bson, Stop>;

/// What the tests of a suite have come to.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    for_others: usize,
    /// The tests that have failed, and why.
    failed: Vec<(String, String)>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.for_others += other.for_others;
        self.failed.extend(other.failed);
    }

    /// Takes out the tests that have failed without one of the reasons, and returns their titles.
    pub(crate) fn take_strange(&mut self, reasons: &[(&str, &str)]) -> Vec<String> {
        let strange = self.failed.extract_if(.., |it| !has_reason(it, reasons));
        strange.map(|(title, _)| title).collect()
    }

    /// Prints the counts. Each reason has a part of what is said of a test, or the beginning of its title.
    ///
    /// # Panics
    /// If a test has failed without one of the reasons, or one of them is not needed any more.
    pub(crate) fn check(&self, suite: &str, reasons: &[(&str, &str)]) {
        self.check_failed(suite, reasons);
        for (part, reason) in reasons {
            let is_needed = self.failed.iter().any(|it| is_of(it, part));
            assert!(is_needed, "nothing fails because of \"{part}\" any more: {reason}");
        }
    }

    /// The same, where a slow machine lets a test pass that fails elsewhere.
    ///
    /// # Panics
    /// If a test has failed without one of the reasons.
    pub(crate) fn check_failed(&self, suite: &str, reasons: &[(&str, &str)]) {
        let Self { passed, for_others, failed } = self;
        let strange: Vec<_> = failed.iter().filter(|it| !has_reason(it, reasons)).collect();
        println!(
            "{suite}: {passed} passed, {} failed, {for_others} are for other servers",
            failed.len()
        );
        for (part, reason) in reasons {
            let count = failed.iter().filter(|it| is_of(it, part)).count();
            println!("{suite}: {count} failed: {reason}");
        }
        // One line, for logs that keep no more of a panic.
        assert!(strange.is_empty(), "{suite}: {} strange: {strange:?}", strange.len());
    }
}

fn is_of((title, why): &(String, String), part: &str) -> bool {
    title.starts_with(part) || why.contains(part)
}

fn has_reason(failed: &(String, String), reasons: &[(&str, &str)]) -> bool {
    reasons.iter().any(|(part, _)| is_of(failed, part))
}

/// How many servers share the tests of a suite. Nearly all of its time a test waits for the next look at a server, so they are
/// many; FerretDB, which is a process each time, has fewer.
const SHARES: usize = 24;
const FERRET_SHARES: usize = 12;

/// Runs the tests of a folder of the specifications behind proxies; `None`, with a word, if they or FerretDB are not to
/// be had.
pub(crate) fn run_suite(folder: &str, shape: Shape) -> Option<Tally> {
    run_files(specs::files(folder)?, shape)
}

/// The same for some files.
pub(crate) fn run_files(files: Vec<(String, serde_json::Value)>, shape: Shape) -> Option<Tally> {
    let most = if shape.is_whole() { SHARES } else { FERRET_SHARES };
    let shares = specs::shares(&files, most);
    Server::start(shape)?;
    let run = |files| {
        thread::spawn(move || {
            let server = Server::start(shape).expect("it is built");
            suite_on_core(async move {
                let proxy = FaultProxy::start(server.place(), shape);
                Runner::behind(server.address(), &proxy, shape).run_all(files).await
            })
        })
    };
    let running: Vec<_> = shares.into_iter().map(run).collect();
    let mut tally = Tally::default();
    running.into_iter().for_each(|share| tally.add(share.join().expect("no panic")));
    Some(tally)
}

/// What is behind a proxy.
enum Server {
    Ferret(Ferret),
    /// The double of the tests, where FerretDB would not do.
    Whole(Mongod),
}

impl Server {
    fn start(shape: Shape) -> Option<Self> {
        match shape.is_whole() {
            true => Some(Self::Whole(Mongod::start())),
            false => Ferret::start().map(Self::Ferret),
        }
    }

    fn place(&self) -> &str {
        match self {
            Self::Ferret(ferret) => &ferret.place,
            Self::Whole(mongod) => mongod.place(),
        }
    }

    fn address(&self) -> &str {
        match self {
            Self::Ferret(ferret) => &ferret.address,
            Self::Whole(mongod) => mongod.address(),
        }
    }
}

/// Runs tests on one server.
pub(crate) struct Runner<'a> {
    /// FerretDB itself, for what is there before a test and after it.
    setup: Client,
    /// `host:port` of what the tests' clients talk to.
    place: &'a str,
    shape: Shape,
    proxy: Option<&'a FaultProxy>,
}

impl<'a> Runner<'a> {
    /// On FerretDB as it is.
    pub(crate) fn plain(address: &str, place: &'a str) -> Self {
        Self { setup: Client::new(options(address)), place, shape: Shape::Single, proxy: None }
    }

    /// On FerretDB behind a proxy.
    pub(crate) fn behind(address: &str, proxy: &'a FaultProxy, shape: Shape) -> Self {
        let place = &proxy.place;
        Self { setup: Client::new(options(address)), place, shape, proxy: Some(proxy) }
    }

    /// Runs the tests of all files.
    pub(crate) async fn run_all(&self, files: Vec<(String, serde_json::Value)>) -> Tally {
        let mut tally = Tally::default();
        for (name, file) in files {
            let file = json(&file);
            for test in documents(&file, "tests") {
                let title = format!("{name}: {}", test.get_str("description").expect("a name"));
                match self.run(&file, test).await {
                    Ok(()) => tally.passed += 1,
                    Err(Why::NotForThisServer) => tally.for_others += 1,
                    Err(Why::Failed(why)) => tally.failed.push((title, why)),
                }
                if let Some(proxy) = self.proxy {
                    proxy.end_test(self.shape).await;
                }
            }
        }
        tally
    }

    async fn run(&self, file: &Document, test: &Document) -> Result<(), Why> {
        for place in [file, test] {
            let requirements: Vec<_> = documents(place, "runOnRequirements").collect();
            if !requirements.is_empty() && !requirements.iter().any(|it| self.is_met(it)) {
                return Err(Why::NotForThisServer);
            }
        }
        if test.contains_key("expectLogMessages") {
            return Err(failed("the client logs in words of its own".to_owned()));
        }
        self.prepare(file).await?;
        let mut world = World::new(self);
        for entity in documents(file, "createEntities") {
            world.add(entity).await?;
        }
        for operation in documents(test, "operations") {
            world.check(operation).await?;
        }
        world.note_sessions();
        for expected in documents(test, "expectEvents") {
            world.compare_events(expected)?;
        }
        for outcome in documents(test, "outcome") {
            self.compare_outcome(outcome).await?;
        }
        Ok(())
    }

    /// Whether FerretDB is such a server: it takes itself for MongoDB 7.0, and behind a proxy for a newer one.
    fn is_met(&self, requirement: &Document) -> bool {
        let is_newest = self.shape == Shape::Newest || self.shape.is_whole();
        let own_version = if is_newest { [8, 0] } else { [7, 0] };
        let version = |name| -> Option<Vec<u32>> {
            let text = requirement.get_str(name).ok()?;
            Some(text.split('.').map(|part| part.parse().expect("a number")).collect())
        };
        let shape = match self.shape {
            Shape::Single | Shape::Newest | Shape::Telling => "single",
            Shape::ReplicaSet | Shape::TellingSet | Shape::Whole => "replicaset",
            Shape::LoadBalanced => "load-balanced",
            Shape::Sharded => "sharded",
        };
        let topologies = requirement.get_array("topologies").ok();
        let parameters = requirement.get_document("serverParameters");
        let has_test_commands = |parameters: &Document| parameters.get_bool("enableTestCommands");
        version("minServerVersion").is_none_or(|least| least[..] <= own_version[..])
            && version("maxServerVersion").is_none_or(|most| most[..] >= own_version[..])
            && topologies.is_none_or(|all| all.contains(&shape.into()))
            && requirement.get_str("serverless").ok() != Some("require")
            && !requirement.get_bool("auth").unwrap_or_default()
            && !requirement.get_bool("csfle").unwrap_or_default()
            && !parameters.is_ok_and(|it| has_test_commands(it).unwrap_or_default())
    }

    async fn prepare(&self, file: &Document) -> Result<(), Why> {
        if self.shape.is_whole() {
            let end = self.setup.database("admin").run_command(doc! { "killAllSessions": [] });
            end.await.expect("the double knows it");
        }
        for data in documents(file, "initialData") {
            let things = self.collection(data);
            let prepared = async {
                things.drop().await?;
                let initial: Vec<_> = documents(data, "documents").cloned().collect();
                match initial.is_empty() {
                    false => drop(things.insert_many(&initial).await?),
                    true if self.shape.is_whole() => {
                        let database = data.get_str("databaseName").expect("a name");
                        self.setup.database(database).create_collection(things.name()).await?;
                    }
                    true => {}
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

fn failed(why: String) -> Why {
    Why::Failed(why)
}

/// Refuses an operation with arguments that the client does not have.
fn has_only(name: &str, arguments: &Document, known: &[&str]) -> Result<(), Stop> {
    match arguments.keys().find(|it| !known.contains(&it.as_str())) {
        Some(unknown) => Err(Stop::Missing(format!("{name} with {unknown}"))),
        None => Ok(()),
    }
}
