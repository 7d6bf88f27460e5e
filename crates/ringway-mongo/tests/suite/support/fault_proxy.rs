//! A proxy in front of FerretDB that makes of it what it is not: a server that fails on demand (`failCommand`,
//! `onPrimaryTransactionalWrite`), does not answer writes with `w: 0`, and is a replica set of one member, which knows the
//! numbers of writes.

mod request;

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bson::{Bson, Document, doc};

use self::request::{Request, message, read};
use super::bulk_double;

/// Codes whose errors a server labels, if the write has a number. Specification: Retryable Writes, "RetryableWriteError
/// Labels".
const RETRYABLE: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

/// Codes of errors after which a transaction may be run again.
const TRANSIENT: [i32; 5] = [24, 112, 246, 251, 267];

/// Codes of errors after which a change stream goes on. Specification: Change Streams, "Resumable Error".
const RESUMABLE: [i32; 17] =
    [6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436];

/// Fields that FerretDB does not know.
const UNKNOWN: [&str; 6] = [
    "txnNumber",
    "startTransaction",
    "autocommit",
    "loadBalanced",
    "topologyVersion",
    "maxAwaitTimeMS",
];

/// What the proxy says that its server is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Single,
    ReplicaSet,
    /// A single server as MongoDB 8.0 is, which knows `bulkWrite`.
    Newest,
    /// A server that tells of changes by itself: of none, because there are none.
    Telling,
    /// The same as a replica set.
    TellingSet,
    /// A load balancer: connections lead to two services in turn, which have transactions, but cannot undo them.
    LoadBalanced,
    /// A replica set of MongoDB 8.0, with all that FerretDB has not: behind the proxy is the double of the tests.
    Whole,
    /// Two routers to the same.
    Sharded,
}

impl Shape {
    /// Whether the server has transactions and change streams by itself.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Sharded)
    }
}

/// The proxy. Its connections end with their clients.
pub(crate) struct FaultProxy {
    /// `host:port`
    pub(crate) place: String,
    /// The same, of a load balancer that leads to one service, and of the other router.
    pub(crate) place_of_one: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    /// What fails at one router only, by its place.
    at_one: Option<(String, Fault)>,
    /// The routers that transactions began at, by their sessions.
    routers: HashMap<Vec<u8>, String>,
    /// Replies to numbered writes, by their session and number.
    done: HashMap<(Vec<u8>, i64), Document>,
    /// Connections of clients.
    open: usize,
}

/// A fail point.
struct Fault {
    /// Whether it is that of numbered writes, and not that of commands by their names.
    is_of_commits: bool,
    skip: i64,
    times: i64,
    data: Document,
}

/// What happens to one command.
#[derive(Default)]
struct Happening {
    delay: Duration,
    closes: bool,
    /// The connection is closed when the command was executed.
    closes_late: bool,
    error: Option<Document>,
    concern_error: Option<Document>,
    labels: Option<Vec<Bson>>,
}

impl FaultProxy {
    pub(crate) fn start(server: &str, shape: Shape) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let listen = |leads_to_one| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let me = listener.local_addr().expect("an address").to_string();
            let (server, state, place) = (server.to_owned(), Arc::clone(&state), me.clone());
            let talk = Arc::new(Talk { server, me, shape, state });
            thread::spawn(move || {
                for (number, client) in listener.incoming().enumerate() {
                    let (client, talk) = (client.expect("a connection"), Arc::clone(&talk));
                    let number = if leads_to_one { 0 } else { number };
                    talk.state.lock().expect("no panic").open += 1;
                    thread::spawn(move || {
                        let _ended = talk.serve(&client, number);
                        let _closed = client.shutdown(Shutdown::Both);
                        talk.state.lock().expect("no panic").open -= 1;
                    });
                }
            });
            place
        };
        let place = listen(false);
        let place_of_one = match shape {
            Shape::LoadBalanced | Shape::Sharded => listen(true),
            _ => place.clone(),
        };
        Self { place, place_of_one, state }
    }

    /// Sets what fails: the command `configureFailPoint`.
    pub(crate) fn fail(&self, point: &Document) {
        self.state().fail(point);
    }

    /// The same at one router.
    pub(crate) fn fail_at(&self, place: &str, point: &Document) {
        let fault = Fault::of(point);
        self.state().at_one = fault.map(|fault| (place.to_owned(), fault));
    }

    /// Has nothing fail any more, and waits until the clients of a test are gone: what they do in the background would meet
    /// what is to fail in the next one. Where servers tell by themselves, their monitors would wait for long.
    pub(crate) async fn end_test(&self, shape: Shape) {
        {
            let mut state = self.state();
            (state.fault, state.at_one) = (None, None);
        }
        let is_telling = matches!(shape, Shape::Telling | Shape::TellingSet);
        while !is_telling && self.state().open > 0 {
            ringway_runtime::sleep(Duration::from_millis(1)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

fn whole(number: &Bson) -> i64 {
    number.as_i64().or_else(|| number.as_i32().map(i64::from)).expect("a number")
}

impl State {
    /// Sets what fails: the command `configureFailPoint`.
    fn fail(&mut self, point: &Document) {
        self.fault = Fault::of(point);
    }

    /// What is to happen to a command that came to a place.
    fn next(&mut self, request: &Request, app: &str, place: &str) -> Happening {
        let fault = match &mut self.at_one {
            Some((of, fault)) if of == place => Some(fault),
            _ => self.fault.as_mut(),
        };
        let Some(fault) = fault else { return Happening::default() };
        let is_new = |write: &_| !self.done.contains_key(write);
        let data = &fault.data;
        let names = data.get_array("failCommands").map_or(&[][..], Vec::as_slice);
        let is_meant = match fault.is_of_commits {
            true => request.number().is_some_and(|write| is_new(&write)),
            false => names.iter().any(|it| it.as_str() == Some(request.name())),
        };
        let is_other_app = data.get_str("appName").is_ok_and(|wanted| wanted != app);
        if !is_meant || is_other_app || fault.times == 0 {
            return Happening::default();
        }
        if fault.skip > 0 {
            fault.skip -= 1;
            return Happening::default();
        }
        fault.times -= 1;
        match fault.is_of_commits {
            true => Happening::of_commit(data),
            false => Happening::of(data),
        }
    }
}

impl Fault {
    /// By the command `configureFailPoint`; `None` if nothing is to fail any more.
    fn of(point: &Document) -> Option<Self> {
        let number = |mode: &Document, name| mode.get(name).map(whole);
        let (skip, times) = match point.get("mode").expect("a mode") {
            Bson::Document(mode) => (number(mode, "skip"), number(mode, "times")),
            Bson::String(mode) if mode == "alwaysOn" => (None, None),
            _ => return None,
        };
        let mut data = point.get_document("data").cloned().unwrap_or_default();
        let is_of_commits = match point.get_str("configureFailPoint").expect("a name") {
            "failCommand" => false,
            "onPrimaryTransactionalWrite" => true,
            "failGetMoreAfterCursorCheckout" => {
                // Unlike those of the other one, its errors have labels.
                if data
                    .get("errorCode")
                    .is_some_and(|it| RESUMABLE.map(i64::from).contains(&whole(it)))
                {
                    data.insert("errorLabels", ["ResumableChangeStreamError"]);
                }
                data.insert("failCommands", ["getMore"]);
                false
            }
            other => panic!("unknown fail point {other}"),
        };
        let (skip, times) = (skip.unwrap_or(0), times.unwrap_or(i64::MAX));
        Some(Self { is_of_commits, skip, times, data })
    }
}

impl Happening {
    fn of_commit(data: &Document) -> Self {
        let is_before = data.contains_key("failBeforeCommitExceptionCode");
        Self { closes: is_before, closes_late: !is_before, ..Self::default() }
    }

    fn of(data: &Document) -> Self {
        let is_blocking = data.get_bool("blockConnection").unwrap_or_default();
        let millis = data.get("blockTimeMS").filter(|_| is_blocking).map_or(0, whole);
        let error = data.get("errorCode").map(|code| {
            doc! { "ok": 0.0, "code": code, "codeName": "Failed", "errmsg": "failing by the fail point failCommand" }
        });
        Self {
            delay: Duration::from_millis(millis.try_into().expect("a time")),
            closes: data.get_bool("closeConnection").unwrap_or_default(),
            closes_late: false,
            error,
            concern_error: data.get_document("writeConcernError").ok().cloned(),
            labels: data.get_array("errorLabels").ok().cloned(),
        }
    }
}

struct Talk {
    server: String,
    me: String,
    shape: Shape,
    state: Arc<Mutex<State>>,
}

impl Talk {
    /// Passes commands and replies on until one side ends.
    fn serve(&self, mut client: &TcpStream, number: usize) -> Option<()> {
        let mut server = TcpStream::connect(&self.server).ok()?;
        let mut app = String::new();
        loop {
            let request = read(client)?;
            if let Ok(client) = request.body.get_document("client") {
                let named = client.get_document("application").and_then(|it| it.get_str("name"));
                app = named.unwrap_or_default().to_owned();
            }
            let happening = self.state.lock().expect("no panic").next(&request, &app, &self.me);
            #[expect(
                clippy::disallowed_methods,
                reason = "the fail point says how slow the server is"
            )]
            thread::sleep(happening.delay);
            if happening.closes {
                return None;
            }
            let mut reply = match happening.error {
                Some(error) => error,
                None => self.ask(&request, &mut server)?,
            };
            if happening.closes_late {
                return None;
            }
            if let Some(error) = happening.concern_error {
                reply.insert("writeConcernError", error);
            }
            self.label(&request, &mut reply, happening.labels);
            if request.is_greeting() && matches!(self.shape, Shape::Telling | Shape::TellingSet) {
                let process = bson::oid::ObjectId::from_bytes([3; 12]);
                let version = doc! { "processId": process, "counter": 1_i64 };
                reply.insert("topologyVersion", version);
                // Nothing changes, so it answers when the time is over.
                let millis = request.body.get("maxAwaitTimeMS").map_or(0, whole);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a server waits for a change so long"
                )]
                thread::sleep(Duration::from_millis(millis.try_into().expect("a time")));
            }
            if request.is_greeting() && self.shape == Shape::LoadBalanced {
                let service = if number.is_multiple_of(2) { [1; 12] } else { [2; 12] };
                reply.insert("serviceId", bson::oid::ObjectId::from_bytes(service));
            }
            if request.is_greeting() && matches!(self.shape, Shape::LoadBalanced | Shape::Sharded) {
                reply.insert("msg", "isdbgrid");
            }
            if self.shape == Shape::Sharded && request.body.contains_key("autocommit") {
                reply.insert("recoveryToken", doc! { "recoveryShardId": "s" });
            }
            if !request.is_unanswered {
                client.write_all(&message(1, request.id, &reply)).ok()?;
            }
        }
    }

    /// Has FerretDB execute a command, unless it is a write that it has executed.
    fn ask(&self, request: &Request, server: &mut TcpStream) -> Option<Document> {
        if self.shape == Shape::Newest && request.name() == "bulkWrite" {
            return bulk_double::execute(&request.body, |command| {
                server.write_all(&message(request.id, 0, &command)).ok()?;
                Some(read(&mut *server)?.body)
            });
        }
        if !self.shape.is_whole()
            && request.reads_snapshot()
            && !["find", "aggregate", "distinct"].contains(&request.name())
        {
            let why = "only find, aggregate and distinct read of snapshots";
            return Some(fake_error(72, "InvalidOptions", why));
        }
        if self.is_lost(request) && self.abort(request, server)? {
            return Some(fake_error(251, "NoSuchTransaction", "it was aborted by another router"));
        }
        let write = request.number();
        let done = || self.state.lock().expect("no panic");
        if let Some(write) = &write
            && let Some(reply) = done().done.get(write)
        {
            return Some(reply.clone());
        }
        match request.name() {
            "commitTransaction" | "abortTransaction" if !self.shape.is_whole() => {
                return Some(doc! { "ok": 1.0 });
            }
            "configureFailPoint" => {
                self.state.lock().expect("no panic").fail(&request.body);
                return Some(doc! { "ok": 1.0 });
            }
            _ => {}
        }
        let has_unknown = || UNKNOWN.iter().any(|field| request.body.contains_key(field));
        if !self.shape.is_whole() && has_unknown() {
            let mut body = request.body.clone();
            UNKNOWN.iter().for_each(|field| drop(body.remove(field)));
            server.write_all(&message(request.id, 0, &body)).ok()?;
        } else {
            server.write_all(&request.bytes).ok()?;
        }
        let mut reply = read(server)?.body;
        if request.reads_snapshot() && !self.shape.is_whole() {
            let at = Bson::Timestamp(bson::Timestamp { time: 1, increment: 1 });
            match reply.get_document_mut("cursor") {
                Ok(cursor) => drop(cursor.insert("atClusterTime", at)),
                Err(_) => drop(reply.insert("atClusterTime", at)),
            }
        }
        if let Some(write) = write {
            done().done.insert(write, reply.clone());
        }
        if request.is_greeting()
            && matches!(self.shape, Shape::ReplicaSet | Shape::TellingSet | Shape::Whole)
        {
            let set = doc! {
                "setName": "rs", "setVersion": 1, "hosts": [&self.me], "me": &self.me, "primary": &self.me,
                "isWritablePrimary": true, "secondary": false,
                "electionId": bson::oid::ObjectId::from_bytes([1; 12]),
            };
            reply.extend(set);
        }
        Some(reply)
    }

    /// Whether the commit of a transaction comes by another router than that which began it: unless it has committed already,
    /// it is aborted. Specification: Transactions, "recoveryToken".
    fn is_lost(&self, request: &Request) -> bool {
        let Some(session) = request.session().filter(|_| self.shape == Shape::Sharded) else {
            return false;
        };
        let routers = &mut self.state.lock().expect("no panic").routers;
        if request.body.contains_key("startTransaction") {
            routers.insert(session, self.me.clone());
            return false;
        }
        request.name() == "commitTransaction" && routers.get(&session) != Some(&self.me)
    }

    /// Aborts the transaction of a commit. False if it is over already.
    fn abort(&self, commit: &Request, server: &mut TcpStream) -> Option<bool> {
        let mut end = commit.body.clone();
        end.remove("commitTransaction");
        let end = doc! { "abortTransaction": 1 }.into_iter().chain(end).collect();
        server.write_all(&message(commit.id, 0, &end)).ok()?;
        Some(read(server)?.body.get_f64("ok").is_ok_and(|ok| ok == 1.0))
    }

    /// Labels an error as a member of a replica set does.
    fn label(&self, request: &Request, reply: &mut Document, labels: Option<Vec<Bson>>) {
        if let Some(labels) = labels {
            reply.insert("errorLabels", labels);
            return;
        }
        let inner = reply.get_document("writeConcernError").ok();
        let code = inner.unwrap_or(reply).get_i32("code").unwrap_or_default();
        let is_end = matches!(request.name(), "commitTransaction" | "abortTransaction");
        let is_unconfirmed = reply.contains_key("writeConcernError");
        let is_passing = match self.shape.is_whole() {
            _ if is_unconfirmed => false,
            true if is_end => TRANSIENT.contains(&code),
            true => TRANSIENT.contains(&code) || RETRYABLE.contains(&code),
            false => TRANSIENT.contains(&code),
        };
        if request.body.contains_key("autocommit") && is_passing {
            reply.insert("errorLabels", vec![Bson::from("TransientTransactionError")]);
            return;
        }
        let is_numbered = request.number().is_some() || self.shape.is_whole() && is_end;
        if is_numbered && RETRYABLE.contains(&code) {
            reply.insert("errorLabels", vec![Bson::from("RetryableWriteError")]);
        }
    }
}

fn fake_error(code: i32, name: &str, why: &str) -> Document {
    doc! { "ok": 0.0, "code": code, "codeName": name, "errmsg": why }
}
