//! A proxy in front of FerretDB that makes of it what it is not: a server that fails on demand (`failCommand`,
//! `onPrimaryTransactionalWrite`), does not answer writes with `w: 0`, and is a replica set of one member, which knows the
//! numbers of writes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, doc};
use ringway_wire::mongo::OpMsg;

use super::{bulk_double, fake};

/// Codes whose errors a server labels, if the write has a number. Specification: Retryable Writes, "RetryableWriteError
/// Labels".
const RETRYABLE: [i32; 12] = [6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

/// Codes of errors after which a transaction may be run again.
const TRANSIENT: [i32; 3] = [24, 112, 251];

/// Fields that FerretDB does not know.
const UNKNOWN: [&str; 6] = [
    "txnNumber",
    "startTransaction",
    "autocommit",
    "loadBalanced",
    "topologyVersion",
    "maxAwaitTimeMS",
];

const MORE_TO_COME: u8 = 2;

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
}

/// The proxy. Its connections end with their clients.
pub(crate) struct FaultProxy {
    /// `host:port`
    pub(crate) place: String,
    /// The same, of a load balancer that leads to one service.
    pub(crate) place_of_one: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    /// Replies to numbered writes, by their session and number.
    done: HashMap<(Vec<u8>, i64), Document>,
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

struct Request {
    bytes: Vec<u8>,
    id: i32,
    is_unanswered: bool,
    body: Document,
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
                    thread::spawn(move || {
                        let _ended = talk.serve(&client, number);
                        let _closed = client.shutdown(Shutdown::Both);
                    });
                }
            });
            place
        };
        let place = listen(false);
        let place_of_one = match shape {
            Shape::LoadBalanced => listen(true),
            _ => place.clone(),
        };
        Self { place, place_of_one, state }
    }

    /// Sets what fails: the command `configureFailPoint`.
    pub(crate) fn fail(&self, point: &Document) {
        self.state().fail(point);
    }

    pub(crate) fn stop_failing(&self) {
        self.state().fault = None;
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
        let number = |mode: &Document, name| mode.get(name).map(whole);
        let fault = match point.get("mode").expect("a mode") {
            Bson::Document(mode) => Some((number(mode, "skip"), number(mode, "times"))),
            Bson::String(mode) if mode == "alwaysOn" => Some((None, None)),
            _ => None,
        };
        let data = point.get_document("data").cloned().unwrap_or_default();
        let is_of_commits = match point.get_str("configureFailPoint").expect("a name") {
            "failCommand" => false,
            "onPrimaryTransactionalWrite" => true,
            other => panic!("unknown fail point {other}"),
        };
        self.fault = fault.map(|(skip, times)| Fault {
            is_of_commits,
            skip: skip.unwrap_or(0),
            times: times.unwrap_or(i64::MAX),
            data,
        });
    }

    /// What is to happen to a command.
    fn next(&mut self, request: &Request, app: &str) -> Happening {
        let Some(fault) = &mut self.fault else { return Happening::default() };
        let data = &fault.data;
        let names = data.get_array("failCommands").map_or(&[][..], Vec::as_slice);
        let is_meant = match fault.is_of_commits {
            true => request.number().is_some_and(|write| !self.done.contains_key(&write)),
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
            let happening = self.state.lock().expect("no panic").next(&request, &app);
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
            if request.name() == "hello" && matches!(self.shape, Shape::Telling | Shape::TellingSet)
            {
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
            if request.name() == "hello" && self.shape == Shape::LoadBalanced {
                let service = if number.is_multiple_of(2) { [1; 12] } else { [2; 12] };
                reply.insert("serviceId", bson::oid::ObjectId::from_bytes(service));
                reply.insert("msg", "isdbgrid");
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
        if request.reads_snapshot() && !["find", "aggregate", "distinct"].contains(&request.name())
        {
            let why = "only find, aggregate and distinct read of snapshots";
            return Some(
                doc! { "ok": 0.0, "code": 72, "codeName": "InvalidOptions", "errmsg": why },
            );
        }
        let write = request.number();
        let done = || self.state.lock().expect("no panic");
        if let Some(write) = &write
            && let Some(reply) = done().done.get(write)
        {
            return Some(reply.clone());
        }
        match request.name() {
            "commitTransaction" | "abortTransaction" => return Some(doc! { "ok": 1.0 }),
            "configureFailPoint" => {
                self.state.lock().expect("no panic").fail(&request.body);
                return Some(doc! { "ok": 1.0 });
            }
            _ => {}
        }
        if UNKNOWN.iter().any(|field| request.body.contains_key(field)) {
            let mut body = request.body.clone();
            UNKNOWN.iter().for_each(|field| drop(body.remove(field)));
            server.write_all(&message(request.id, 0, &body)).ok()?;
        } else {
            server.write_all(&request.bytes).ok()?;
        }
        let mut reply = read(server)?.body;
        if request.reads_snapshot() {
            let at = Bson::Timestamp(bson::Timestamp { time: 1, increment: 1 });
            match reply.get_document_mut("cursor") {
                Ok(cursor) => drop(cursor.insert("atClusterTime", at)),
                Err(_) => drop(reply.insert("atClusterTime", at)),
            }
        }
        if let Some(write) = write {
            done().done.insert(write, reply.clone());
        }
        if matches!(request.name(), "hello" | "isMaster" | "ismaster")
            && matches!(self.shape, Shape::ReplicaSet | Shape::TellingSet)
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

    /// Labels an error as a member of a replica set does.
    fn label(&self, request: &Request, reply: &mut Document, labels: Option<Vec<Bson>>) {
        if let Some(labels) = labels {
            reply.insert("errorLabels", labels);
            return;
        }
        let inner = reply.get_document("writeConcernError").ok();
        let code = inner.unwrap_or(reply).get_i32("code").unwrap_or_default();
        if request.body.contains_key("autocommit") && TRANSIENT.contains(&code) {
            reply.insert("errorLabels", vec![Bson::from("TransientTransactionError")]);
            return;
        }
        if request.number().is_some() && RETRYABLE.contains(&code) {
            reply.insert("errorLabels", vec![Bson::from("RetryableWriteError")]);
        }
    }
}

impl Request {
    /// Whether it is to see the data of one moment: FerretDB has no such thing, and shows what it has.
    fn reads_snapshot(&self) -> bool {
        let concern = self.body.get_document("readConcern");
        concern.is_ok_and(|concern| concern.get_str("level").is_ok_and(|it| it == "snapshot"))
    }

    fn name(&self) -> &str {
        self.body.keys().next().map_or("", String::as_str)
    }

    /// The session and the number of a numbered write.
    fn number(&self) -> Option<(Vec<u8>, i64)> {
        if self.body.contains_key("autocommit") {
            return None; // It is of a whole transaction.
        }
        let Bson::Binary(session) = self.body.get_document("lsid").ok()?.get("id")? else {
            return None;
        };
        Some((session.bytes.clone(), self.body.get_i64("txnNumber").ok()?))
    }
}

fn message(id: i32, to: i32, body: &Document) -> Vec<u8> {
    fake::message(id, to, &RawDocumentBuf::try_from(body).expect("BSON"))
}

/// The next message, with documents of sequences in its body.
fn read(mut stream: impl Read) -> Option<Request> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).ok()?;
    let len = u32::from_le_bytes(bytes[..4].try_into().expect("four")) as usize;
    bytes.resize(len, 0);
    stream.read_exact(&mut bytes[4..]).ok()?;
    let id = i32::from_le_bytes(bytes[4..8].try_into().expect("four"));
    let read = OpMsg::read(&bytes).expect("a whole message");
    let mut body = Document::try_from(read.body()).expect("BSON");
    for sequence in read.sequences() {
        let documents = sequence.documents().map(|it| Document::try_from(it).expect("BSON"));
        body.insert(sequence.identifier(), documents.collect::<Vec<_>>());
    }
    let is_unanswered = bytes[16] & MORE_TO_COME != 0;
    Some(Request { id, is_unanswered, body, bytes })
}
