//! The client of the mongo suite: tasks, and threads, that run operations of our MongoDB client.

mod threads;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ringway_mongo::bson::{Bson, Document, RawDocumentBuf, rawdoc};
use ringway_mongo::{Client, ClientOptions, Collection, Database, Error};
use ringway_runtime::spawn;
use ringway_wire::mongo::CursorReply;

use super::engine::Part;
use super::outcome::{CoreOutcome, Outcome};
use super::score::Score;
use super::server::{Server, Usage};
use crate::args::{BenchConfig, MongoJob, MongoLoad, MongoOp, MongoSend, Suite, Uri};
use crate::limits;
use crate::mongo_books::{
    BATCH_LEN, BATCHES, BOOKS, BULK_LEN, Book, DATABASE, PLANNED_CODE, READ, WRITTEN, is_book,
};

/// What all cores of a run share.
#[derive(Default)]
pub(super) struct Shared {
    /// Failures that were planned by the responder and have come.
    refused: AtomicU64,
}

impl Shared {
    /// Counts an operation. False if there was no answer.
    fn note(
        &self,
        outcome: ringway_mongo::Result<Comparison>,
        begun: Instant,
        ended: Instant,
        score: &Score,
    ) -> bool {
        match outcome {
            Ok(verdict) => {
                let is_right = verdict.is_ok();
                score.settle(is_right, begun, ended, || verdict.err().unwrap_or_default());
            }
            Err(error) if is_planned(&error) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                score.compared(true, String::new);
                score.add(1);
            }
            Err(error) => {
                fail(score, &error);
                return false;
            }
        }
        true
    }
}

/// The server of the mongo suite, if it is one of the suites.
pub(super) fn job(config: &BenchConfig) -> Option<&MongoJob> {
    config.suites.iter().find_map(|suite| match suite {
        Suite::Mongo { job, .. } => Some(job),
        _ => None,
    })
}

/// Runs operations again and again, one task for each connection of `part`.
pub(super) async fn run(
    part: Part,
    load: MongoLoad,
    job: MongoJob,
    shared: Arc<Shared>,
) -> io::Result<CoreOutcome> {
    let score = match load.send {
        // Several cores cannot tell apart whose threads they were.
        MongoSend::Threads if part.connections.start == 0 => {
            Score::with_usage(Usage::of_this_process)
        }
        MongoSend::Threads => Score::with_usage(Usage::default),
        MongoSend::Tasks | MongoSend::Fans(_) | MongoSend::Pipelines(_) => Score::new(),
    };
    if let Some(total) = job.total {
        score.set_most((total as f64 * part.share_of_all()).ceil() as u64);
    }
    let count = part.connections.len() as u32;
    let uri = connection_string(&job, &part.uri);
    let places = match load.send {
        MongoSend::Fans(fan) => count.saturating_mul(fan),
        _ => count,
    };
    let mut options = ClientOptions::parse(&uri).map_err(io::Error::other)?.pool_size_max(places);
    if let Some(limit) = job.timeout {
        options = options.timeout(limit);
    }
    let database = Client::new(options).database(job.database.as_deref().unwrap_or(DATABASE));
    if let Err(error) = prepare(&part, &job, &database).await {
        fail(&score, &error);
    }
    part.wait_for_all(1).await;
    let lane = |number: u32| {
        let work = MongoLane::new(&database, number, Arc::clone(&shared));
        match load.send {
            MongoSend::Threads => spawn(threads::run(work, load.op, Rc::clone(&score))),
            MongoSend::Fans(fan) => spawn(work.run_fans(load.op, fan, Rc::clone(&score))),
            _ => spawn(work.run(load, Rc::clone(&score))),
        }
    };
    score.keep(&part, part.connections.clone().map(lane).collect()).await
}

fn connection_string(job: &MongoJob, server: &Uri) -> String {
    let place = server.as_str().trim_start_matches("tcp://");
    job.uri.clone().unwrap_or_else(|| format!("mongodb://{place}"))
}

/// Connects. A server that keeps documents gets those that will be read.
async fn prepare(part: &Part, job: &MongoJob, database: &Database) -> ringway_mongo::Result {
    database.ping().await?;
    if job.uri.is_some() && part.connections.start == 0 {
        for name in [READ, WRITTEN] {
            database.collection::<Document>(name).drop().await?;
        }
        let books: Vec<Book> = (0..BOOKS).map(Book::new).collect();
        database.collection::<Book>(READ).insert_many(&books).await?;
    }
    Ok(())
}

/// Compares what the responder has refused with what the client was told, and warns if the responder had no time.
pub(super) fn judge(outcome: &mut Outcome, shared: &Shared, server: &Server, cores: usize) {
    let told = shared.refused.load(Ordering::Relaxed);
    let refused = server.counters().get("refused").and_then(serde_json::Value::as_u64);
    if let Some(refused) = refused.filter(|refused| *refused != told && outcome.errors.total() == 0)
    {
        outcome.errors.mismatched += refused.abs_diff(told);
        outcome.warnings.push(format!(
            "the responder has refused {refused} commands and the client was told of {told}"
        ));
    }
    outcome.warnings.extend(check_busy(outcome, cores));
}

/// Warns if the responder was too busy for the row to tell the client's own speed.
pub(super) fn check_busy(outcome: &Outcome, cores: usize) -> Option<String> {
    let busy = outcome.rate * outcome.server.cpu_us_per_op? / 1e6 / cores as f64;
    (busy >= limits::MONGO_BUSY_MAX).then(|| {
        format!(
            "the responder was busy for {:.0} % of the time or more, so the rate is not that of the client alone",
            limits::MONGO_BUSY_MAX * 100.0
        )
    })
}

/// Whether the responder meant an operation to fail.
fn is_planned(error: &Error) -> bool {
    error.server().is_some_and(|told| told.code == PLANNED_CODE)
}

fn fail(score: &Score, error: &Error) {
    score.failed(error.is_network(), error.is_timeout(), &error.to_string());
}

/// The operations of one task.
struct MongoLane {
    database: Database,
    raw: Collection<RawDocumentBuf>,
    books: Collection<Book>,
    owned: Collection<Document>,
    written: Collection<RawDocumentBuf>,
    /// What differs from one operation to the next.
    sequence: i32,
    /// Documents of one command of `bulk`, without an `_id`.
    bulk: Vec<RawDocumentBuf>,
    shared: Arc<Shared>,
}

/// Whether an answer is the one that was due.
type Comparison = Result<(), String>;

impl MongoLane {
    fn new(database: &Database, number: u32, shared: Arc<Shared>) -> Self {
        let document =
            |n: usize| rawdoc! { "n": n as i32, "text": "one of many", "lane": number as i32 };
        let raw = database.collection(READ);
        Self {
            database: database.clone(),
            books: raw.with_type(),
            owned: raw.with_type(),
            raw,
            written: database.collection(WRITTEN),
            // Tasks do not ask for the same at the same time.
            sequence: (number as i32).wrapping_mul(131),
            bulk: (0..BULK_LEN).map(document).collect(),
            shared,
        }
    }

    async fn run(mut self, MongoLoad { op, send }: MongoLoad, score: Rc<Score>) {
        while !score.is_over() {
            let begun = Instant::now();
            let is_answered = match send {
                MongoSend::Tasks | MongoSend::Threads | MongoSend::Fans(_) => {
                    let outcome = self.one(op).await;
                    self.shared.note(outcome, begun, Instant::now(), &score)
                }
                MongoSend::Pipelines(batch) => {
                    let outcomes = self.pipeline(op, batch).await;
                    let ended = Instant::now();
                    let note = |outcome| self.shared.note(outcome, begun, ended, &score);
                    match outcomes {
                        Ok(each) => each.into_iter().map(note).fold(true, |all, each| all & each),
                        Err(error) => note(Err(error)),
                    }
                }
            };
            if !is_answered {
                ringway_runtime::sleep(limits::FAILED_CALL_PAUSE).await;
            }
        }
    }

    /// Runs so many operations at a time, and waits for all of them before the next ones.
    async fn run_fans(self, op: MongoOp, fan: u32, score: Rc<Score>) {
        let lane = |at: u32| {
            let number = (self.sequence as u32).wrapping_mul(fan).wrapping_add(at);
            Self::new(&self.database, number, Arc::clone(&self.shared))
        };
        let mut lanes: Vec<Self> = (0..fan).map(lane).collect();
        while !score.is_over() {
            let begun = Instant::now();
            let start = |mut lane: Self| {
                spawn(async move {
                    let outcome = lane.one(op).await;
                    (lane, outcome, Instant::now())
                })
            };
            let started: Vec<_> = lanes.drain(..).map(start).collect();
            let mut is_answered = true;
            for operation in started {
                let Ok((lane, outcome, ended)) = operation.await else {
                    return score.failed(false, false, "an operation panicked");
                };
                is_answered &= self.shared.note(outcome, begun, ended, &score);
                lanes.push(lane);
            }
            if !is_answered {
                ringway_runtime::sleep(limits::FAILED_CALL_PAUSE).await;
            }
        }
    }

    /// Runs so many operations on one connection, all under way together.
    async fn pipeline(
        &mut self,
        op: MongoOp,
        batch: u32,
    ) -> ringway_mongo::Result<Vec<ringway_mongo::Result<Comparison>>> {
        let first = self.sequence.wrapping_add(1);
        let mut pipeline = self.database.pipeline().depth(batch as usize);
        for _ in 0..batch {
            self.sequence = self.sequence.wrapping_add(1);
            pipeline.push(match op {
                MongoOp::FindOne => {
                    let filter = rawdoc! { "_id": self.sequence.rem_euclid(BOOKS) };
                    rawdoc! { "find": READ, "filter": filter, "limit": 1_i64, "singleBatch": true }
                }
                _ => rawdoc! { "ping": 1 },
            })?;
        }
        let compare = |(reply, step)| {
            let reply: RawDocumentBuf = reply?;
            Ok(match op {
                MongoOp::FindOne => has_book(&reply, first.wrapping_add(step).rem_euclid(BOOKS)),
                _ => Ok(()),
            })
        };
        Ok(pipeline.await?.into_iter().zip(0..).map(compare).collect())
    }

    async fn one(&mut self, op: MongoOp) -> ringway_mongo::Result<Comparison> {
        self.sequence = self.sequence.wrapping_add(1);
        match op {
            MongoOp::Ping => self.database.ping().await.map(Ok),
            MongoOp::FindOne => self.find_one().await,
            MongoOp::InsertOne => self.insert_one().await,
            MongoOp::FindRaw => self.find_raw().await,
            MongoOp::FindStruct => self.find_struct().await,
            MongoOp::FindOwned => self.find_owned().await,
            MongoOp::Bulk => self.bulk().await,
            MongoOp::Mixed if self.sequence % 5 == 0 => self.insert_one().await,
            MongoOp::Mixed => self.find_one().await,
        }
    }

    async fn find_one(&self) -> ringway_mongo::Result<Comparison> {
        let id = self.sequence.rem_euclid(BOOKS);
        let found = self.raw.find_one(rawdoc! { "_id": id }).await?;
        let is_right = found.as_ref().is_some_and(|book| is_book(book, id));
        Ok(due(is_right, || format!("book {id} was asked for, {found:?} came")))
    }

    async fn insert_one(&self) -> ringway_mongo::Result<Comparison> {
        let document = rawdoc! { "n": self.sequence, "text": "one of many", "price": 1.5 };
        let id = self.written.insert_one(&document).await?;
        Ok(due(matches!(id, Bson::ObjectId(_)), || format!("{id} is no id that was made here")))
    }

    async fn find_raw(&self) -> ringway_mongo::Result<Comparison> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.raw.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while cursor.advance().await? {
            if !is_book(cursor.current(), id) {
                return Ok(Err(format!("book {id} is another one: {:?}", cursor.current())));
            }
            id += 1;
        }
        Ok(ended(id, end))
    }

    async fn find_struct(&self) -> ringway_mongo::Result<Comparison> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.books.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while let Some(book) = cursor.next().await? {
            if !book.is(id) {
                return Ok(Err(format!("book {id} is another one: {book:?}")));
            }
            id += 1;
        }
        Ok(ended(id, end))
    }

    async fn find_owned(&self) -> ringway_mongo::Result<Comparison> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.owned.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while let Some(book) = cursor.next().await? {
            if book.get_i32("_id").ok() != Some(id) || book.len() != BOOK_FIELDS {
                return Ok(Err(format!("book {id} is another one: {book}")));
            }
            id += 1;
        }
        Ok(ended(id, end))
    }

    async fn bulk(&self) -> ringway_mongo::Result<Comparison> {
        let written = self.written.insert_many(&self.bulk).await?;
        let count = written.inserted;
        Ok(due(count == BULK_LEN as u64, || format!("{count} of {BULK_LEN} were written")))
    }

    /// The filter of a batch, and the number of its first document.
    fn batch(&self) -> (RawDocumentBuf, i32) {
        let number = self.sequence.rem_euclid(BATCHES);
        (rawdoc! { "batch": number }, number * BATCH_LEN)
    }
}

fn has_book(reply: &RawDocumentBuf, id: i32) -> Comparison {
    let batch = CursorReply::of(reply).map_err(|fault| fault.to_string())?.batch;
    let book = batch.into_iter().next().and_then(Result::ok).and_then(|book| book.as_document());
    let is_right = book.is_some_and(|book| is_book(book, id));
    due(is_right, || format!("book {id} was asked for, {reply:?} came"))
}

fn due(is_right: bool, complaint: impl FnOnce() -> String) -> Comparison {
    if is_right { Ok(()) } else { Err(complaint()) }
}

fn ended(id: i32, end: i32) -> Comparison {
    due(id == end, || format!("a batch ended {} documents too early or too late", (end - id).abs()))
}

/// Fields of a [`Book`].
const BOOK_FIELDS: usize = 6;
