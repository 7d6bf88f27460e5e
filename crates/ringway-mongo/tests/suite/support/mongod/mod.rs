//! A server in memory that has what FerretDB has not: transactions that are undone, and change streams. It knows as much
//! as the specifications' tests ask for. Behind the proxy that fails on demand it is a replica set or a sharded cluster.

mod changes;
mod data;
mod query;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bson::{Bson, Document, Timestamp, doc};

use self::changes::{Log, Stream};
use self::data::{Change, Data, Done, Refused, refused};
use super::fake::{Answer, Command, Fake, hello};

/// How long a server waits for a change, unless it is told.
const AWAIT: Duration = Duration::from_secs(1);

/// The newest version of the protocol: that of MongoDB 8.0.
const WIRE_VERSION: i32 = 25;

/// Writes whose data can be read of snapshots.
const HISTORY_LEN: usize = 64;

/// How many members may be asked to confirm a write.
const MEMBERS: i64 = 3;

/// The server. Its connections end with their clients.
pub(crate) struct Mongod {
    fake: Fake,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when something was written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    data: Data,
    log: Log,
    /// By the session that each is of.
    transactions: HashMap<Vec<u8>, Transaction>,
    cursors: HashMap<i64, Cursor>,
    last_cursor: i64,
    /// The data at the times of the last writes, for who reads of a snapshot.
    history: BTreeMap<u32, Data>,
}

struct Transaction {
    number: i64,
    /// `None` when it is over.
    data: Option<Data>,
    changes: Vec<Change>,
    was_committed: bool,
}

enum Cursor {
    Documents { namespace: String, left: std::vec::IntoIter<Document> },
    Changes(Box<Stream>),
}

impl Mongod {
    pub(crate) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let fake = Fake::serve_all(move |command| Answer::Reply(shared.answer(command)));
        Self { fake }
    }

    /// `host:port`
    pub(crate) fn place(&self) -> &str {
        &self.fake.place
    }

    /// For a client that uses it as it is.
    pub(crate) fn address(&self) -> &str {
        &self.fake.address
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn answer(&self, command: &Command) -> Document {
        let body = &command.body;
        let done = match command.name() {
            "hello" | "isMaster" | "ismaster" => {
                let mut hello = hello();
                hello.insert("maxWireVersion", WIRE_VERSION);
                if !command.body.contains_key("hello") {
                    hello.insert("ismaster", true);
                }
                return hello;
            }
            "getMore" => self.more(body),
            _ => self.state().run(body),
        };
        self.written.notify_all();
        let mut reply = done.unwrap_or_else(|error| error);
        let now = self.state().log.now();
        reply.insert("operationTime", now);
        let signature = doc! { "hash": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0; 20] }, "keyId": 0_i64 };
        reply.insert("$clusterTime", doc! { "clusterTime": now, "signature": signature });
        reply
    }

    /// The next batch; that of a change stream when there is a change, or the time is over.
    fn more(&self, body: &Document) -> Result<Document, Refused> {
        let id = body.get_i64("getMore").expect("a cursor");
        let wait = body.get("maxTimeMS").map_or(AWAIT, |time| {
            Duration::from_millis(query::whole(time).try_into().expect("a time"))
        });
        let (until, most) = (Instant::now() + wait, most(body.get("batchSize")));
        let mut state = self.state();
        loop {
            let State { log, cursors, .. } = &mut *state;
            let Some(cursor) = cursors.get_mut(&id) else {
                return Err(refused(43, "CursorNotFound", "cursor id not found"));
            };
            match cursor {
                Cursor::Documents { namespace, left } => {
                    let batch: Vec<_> = left.take(most).collect();
                    let (namespace, is_over) = (namespace.clone(), left.as_slice().is_empty());
                    return Ok(state.batch(id, namespace, is_over, ("nextBatch", batch), None));
                }
                Cursor::Changes(stream) => {
                    let (found, token) = stream.next(log, most)?;
                    let left = until.saturating_duration_since(Instant::now());
                    if !found.is_empty() || left.is_zero() {
                        let (namespace, is_over) = (stream.namespace(), stream.is_over());
                        let batch = ("nextBatch", found);
                        return Ok(state.batch(id, namespace, is_over, batch, Some(token)));
                    }
                    state = self.written.wait_timeout(state, left).expect("no panic").0;
                }
            }
        }
    }
}

fn most(size: Option<&Bson>) -> usize {
    match size.map_or(0, query::whole) {
        0 => usize::MAX,
        size => usize::try_from(size).expect("a size"),
    }
}

impl State {
    fn run(&mut self, body: &Document) -> Result<Document, Refused> {
        let name = body.keys().next().expect("a command has a name");
        if name == "killCursors" {
            let ids = body.get_array("cursors").expect("cursors").clone();
            ids.iter().filter_map(Bson::as_i64).for_each(|id| drop(self.cursors.remove(&id)));
            return Ok(doc! { "cursorsKilled": ids, "ok": 1.0 });
        }
        if name == "killAllSessions" {
            self.transactions.clear();
        }
        if name == "aggregate"
            && let Some(stream) = Stream::open(&self.log, body)
        {
            return self.watch(stream?, body);
        }
        let done = match body.contains_key("autocommit") {
            true => self.run_in_transaction(name, body)?,
            false if Snapshot::of(body).is_some() => return self.read_snapshot(name, body),
            false => {
                let done = self.data.execute(body);
                self.note_changes();
                done?
            }
        };
        Ok(match done {
            Done::Reply(reply) => reply,
            Done::Cursor { namespace, documents } => self.first(body, namespace, documents),
        })
    }

    fn note_changes(&mut self) {
        if self.data.changes.is_empty() {
            return;
        }
        self.log.add(&mut self.data);
        self.history.insert(self.log.now().increment, self.data.clone());
        while self.history.len() > HISTORY_LEN {
            self.history.pop_first();
        }
    }

    /// Specification: Snapshot Reads.
    fn read_snapshot(&mut self, name: &str, body: &Document) -> Result<Document, Refused> {
        if !["find", "aggregate", "distinct"].contains(&name) {
            let why = "only find, aggregate and distinct read of snapshots";
            return Err(refused(72, "InvalidOptions", why));
        }
        let now = self.log.now();
        let at = Snapshot::of(body).and_then(|Snapshot(at)| at).unwrap_or(now);
        let then = self.history.range(..=at.increment).next_back();
        let mut data = then.map_or_else(|| self.data.clone(), |(_, data)| data.clone());
        Ok(match data.execute(body)? {
            Done::Reply(mut reply) => {
                reply.insert("atClusterTime", at);
                reply
            }
            Done::Cursor { namespace, documents } => {
                let mut reply = self.first(body, namespace, documents);
                let cursor = reply.get_document_mut("cursor").expect("it was put there");
                cursor.insert("atClusterTime", at);
                reply
            }
        })
    }

    fn first(&mut self, body: &Document, namespace: String, documents: Vec<Document>) -> Document {
        let size = body.get_document("cursor").ok().and_then(|it| it.get("batchSize"));
        let mut left = documents.into_iter();
        // A size of 0 asks for an empty first batch.
        let batch: Vec<_> = match size.or(body.get("batchSize")) {
            Some(size) => left.by_ref().take(query::whole(size) as usize).collect(),
            None => left.by_ref().collect(),
        };
        let is_single = body.get_bool("singleBatch").unwrap_or_default();
        let is_over = is_single || left.as_slice().is_empty() && !is_tailable(body);
        self.last_cursor += 1;
        let id = self.last_cursor;
        self.cursors.insert(id, Cursor::Documents { namespace: namespace.clone(), left });
        self.batch(id, namespace, is_over, ("firstBatch", batch), None)
    }

    fn watch(&mut self, mut stream: Stream, body: &Document) -> Result<Document, Refused> {
        let size = body.get_document("cursor").ok().and_then(|it| it.get("batchSize"));
        let (found, token) = stream.next(&self.log, most(size))?;
        self.last_cursor += 1;
        let (id, namespace, is_over) = (self.last_cursor, stream.namespace(), stream.is_over());
        self.cursors.insert(id, Cursor::Changes(Box::new(stream)));
        Ok(self.batch(id, namespace, is_over, ("firstBatch", found), Some(token)))
    }

    /// A reply with a batch. A cursor that is over is forgotten.
    fn batch(
        &mut self,
        id: i64,
        namespace: String,
        is_over: bool,
        (name, documents): (&str, Vec<Document>),
        token: Option<Document>,
    ) -> Document {
        if is_over {
            self.cursors.remove(&id);
        }
        let id = if is_over { 0 } else { id };
        let mut cursor = doc! { "id": id, "ns": namespace, name: documents };
        cursor.extend(token.map(|token| ("postBatchResumeToken".to_owned(), Bson::from(token))));
        doc! { "cursor": cursor, "ok": 1.0 }
    }

    /// Specification: Transactions. An error of any command ends the transaction.
    fn run_in_transaction(&mut self, name: &str, body: &Document) -> Result<Done, Refused> {
        let session = body.get_document("lsid").ok().and_then(|it| it.get("id"));
        let Some(Bson::Binary(session)) = session else {
            return Err(refused(72, "InvalidOptions", "a transaction has a session"));
        };
        let (session, number) =
            (session.bytes.clone(), body.get_i64("txnNumber").expect("a number"));
        if body.get_bool("startTransaction").unwrap_or_default() {
            let data = Some(self.data.clone());
            let new = Transaction { number, data, changes: Vec::new(), was_committed: false };
            self.transactions.insert(session.clone(), new);
        }
        let gone =
            || refused(251, "NoSuchTransaction", "the transaction has not begun, or has ended");
        let own = self.transactions.get_mut(&session).filter(|it| it.number == number);
        let own = own.ok_or_else(gone)?;
        match name {
            "commitTransaction" => {
                if own.data.take().is_some() {
                    own.was_committed = true;
                    let changes = std::mem::take(&mut own.changes);
                    changes.into_iter().for_each(|change| self.data.apply(change));
                    self.note_changes();
                } else if !own.was_committed {
                    return Err(gone());
                }
                return Ok(Done::Reply(confirmed(body)));
            }
            "abortTransaction" => {
                own.data.take().ok_or_else(gone)?;
                return Ok(Done::Reply(doc! { "ok": 1.0 }));
            }
            _ => {}
        }
        let mut data = own.data.take().ok_or_else(gone)?;
        let done = data.execute(body)?;
        let changes = std::mem::take(&mut data.changes);
        if let Done::Reply(reply) = &done
            && reply.contains_key("writeErrors")
        {
            return Ok(done);
        }
        if self.transactions.values().any(|it| it.has_touched(&changes)) {
            return Err(refused(112, "WriteConflict", "another transaction writes the same"));
        }
        let own = self.transactions.get_mut(&session).expect("it was there");
        own.data = Some(data);
        own.changes.extend(changes);
        Ok(done)
    }
}

/// That a command reads of a snapshot, and of which time.
struct Snapshot(Option<Timestamp>);

impl Snapshot {
    fn of(body: &Document) -> Option<Self> {
        let concern = body.get_document("readConcern").ok()?;
        let is_it = concern.get_str("level").is_ok_and(|level| level == "snapshot");
        is_it.then(|| Self(concern.get_timestamp("atClusterTime").ok()))
    }
}

impl Transaction {
    /// Whether it is under way and has written what others write now.
    fn has_touched(&self, changes: &[Change]) -> bool {
        let key = |change: &Change| {
            let one = change.after.as_ref().or(change.before.as_ref());
            Some((change.namespace.clone(), one?.get("_id")?.clone()))
        };
        let is_there = |change: &Change| {
            let key_now = key(change);
            key_now.is_some() && self.changes.iter().any(|own| key(own) == key_now)
        };
        self.data.is_some() && changes.iter().any(is_there)
    }
}

/// The reply to a commit: no more than one member has it.
fn confirmed(body: &Document) -> Document {
    let members = body.get_document("writeConcern").ok().and_then(|it| it.get("w"));
    let members = members.filter(|it| it.as_str().is_none()).map_or(1, query::whole);
    if members <= MEMBERS {
        return doc! { "ok": 1.0 };
    }
    let why = "Not enough data-bearing nodes";
    let error = doc! { "code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": why };
    doc! { "ok": 1.0, "writeConcernError": error }
}

fn is_tailable(body: &Document) -> bool {
    body.get_bool("tailable").unwrap_or_default()
}
