//! `client mongo`: the crate `mongodb`, MongoDB's own driver, on tokio's current-thread runtime.

mod blocking;
mod books;

use std::sync::Arc;
use std::time::Instant;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use mongodb::error::{Error as MongoError, ErrorKind, Result as MongoResult};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection, Database};
use tokio::task::JoinSet;

use super::report::Report;
use super::run::{Error, Next, Run, drive};
use crate::address::Address;
use crate::args::{MongoOp, MongoOptions};
use books::{
    BATCH_LEN, BATCHES, BOOKS, BULK_LEN, Book, DATABASE, PLANNED_CODE, READ, WRITTEN,
    is_owned_book, is_raw_book,
};

/// The connection string of the server, with its user. Other users of the machine can see arguments.
const URI_VARIABLE: &str = "RINGWAY_PEERS_MONGODB_URI";

/// Runs the workload and reports what was measured.
///
/// # Errors
/// If the server cannot be reached, or cannot be filled. What happens to an operation later is counted in the
/// report instead.
pub(crate) fn mongo(options: &MongoOptions) -> Result<Report, Error> {
    drive(&options.load, |run| start(options, run))
}

/// Connects, fills the server if it keeps documents, and starts a task for each connection.
async fn start(options: &MongoOptions, run: Arc<Run>) -> Result<JoinSet<()>, Error> {
    let uri = match (std::env::var(URI_VARIABLE), &options.load.address) {
        (Ok(uri), _) => uri,
        (Err(_), Address::Tcp(address)) => format!("mongodb://{address}/?directConnection=true"),
        (Err(_), Address::Unix(_)) => return Err("this client speaks TCP only".into()),
    };
    let mut parsed = ClientOptions::parse(&uri).await?;
    parsed.max_pool_size = Some(u32::try_from(options.load.connections)?);
    let database = Client::with_options(parsed)?.database(DATABASE);
    database.run_command(doc! { "ping": 1 }).await?;
    if options.fills {
        database.drop().await?;
        database.collection::<Book>(READ).insert_many((0..BOOKS).map(Book::new)).await?;
    }
    let mut tasks = JoinSet::new();
    if options.is_sync {
        blocking::start(&uri, options, &run, &mut tasks).await?;
        return Ok(tasks);
    }
    for number in 0..options.load.connections {
        let lane = Lane::new(&database, number as i32);
        tasks.spawn(lane.run(options.op, Arc::clone(&run)));
    }
    Ok(tasks)
}

/// The operations of one task.
struct Lane {
    database: Database,
    raw: Collection<RawDocumentBuf>,
    books: Collection<Book>,
    owned: Collection<Document>,
    written: Collection<RawDocumentBuf>,
    /// What differs from one operation to the next.
    sequence: i32,
    /// Documents of one command of `bulk`, without an `_id`.
    bulk: Vec<RawDocumentBuf>,
}

impl Lane {
    fn new(database: &Database, number: i32) -> Self {
        let document = |n: usize| rawdoc! { "n": n as i32, "text": "one of many", "lane": number };
        Self {
            database: database.clone(),
            raw: database.collection(READ),
            books: database.collection(READ),
            owned: database.collection(READ),
            written: database.collection(WRITTEN),
            // Tasks do not ask for the same at the same time.
            sequence: number.wrapping_mul(131),
            bulk: (0..BULK_LEN).map(document).collect(),
        }
    }

    async fn run(mut self, op: MongoOp, run: Arc<Run>) {
        loop {
            let begun = Instant::now();
            self.sequence = self.sequence.wrapping_add(1);
            let outcome = self.one(op).await;
            let next = match outcome {
                Ok(is_right) => run.on_reply(is_right, begun, Instant::now()),
                Err(error) if is_planned(&error) => run.on_message(true),
                Err(error) => return run.on_error(&error.into()),
            };
            if next == Next::End {
                return;
            }
        }
    }

    /// Tells whether the reply was the one that was due.
    async fn one(&mut self, op: MongoOp) -> MongoResult<bool> {
        match op {
            MongoOp::Ping => {
                self.database.run_command(doc! { "ping": 1 }).await?;
                Ok(true)
            }
            MongoOp::FindOne => self.find_one().await,
            MongoOp::InsertOne => self.insert_one().await,
            MongoOp::FindRaw => self.find_raw().await,
            MongoOp::FindStruct => self.find_struct().await,
            MongoOp::FindOwned => self.find_owned().await,
            MongoOp::Bulk => {
                let written = self.written.insert_many(&self.bulk).await?;
                Ok(written.inserted_ids.len() == BULK_LEN)
            }
            MongoOp::Mixed if self.sequence % 5 == 0 => self.insert_one().await,
            MongoOp::Mixed => self.find_one().await,
        }
    }

    async fn find_one(&self) -> MongoResult<bool> {
        let id = self.sequence.rem_euclid(BOOKS);
        let found = self.raw.find_one(doc! { "_id": id }).await?;
        Ok(found.is_some_and(|book| is_raw_book(&book, id)))
    }

    async fn insert_one(&self) -> MongoResult<bool> {
        let document = rawdoc! { "n": self.sequence, "text": "one of many", "price": 1.5 };
        let written = self.written.insert_one(&document).await?;
        Ok(matches!(written.inserted_id, Bson::ObjectId(_)))
    }

    async fn find_raw(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.raw.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while cursor.advance().await? {
            if !is_raw_book(cursor.current(), id) {
                return Ok(false);
            }
            id += 1;
        }
        Ok(id == end)
    }

    async fn find_struct(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.books.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while cursor.advance().await? {
            if !cursor.deserialize_current()?.is(id) {
                return Ok(false);
            }
            id += 1;
        }
        Ok(id == end)
    }

    async fn find_owned(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.owned.find(filter).batch_size(BATCH_LEN as u32).await?;
        let end = id + BATCH_LEN;
        while cursor.advance().await? {
            if !is_owned_book(&cursor.deserialize_current()?, id) {
                return Ok(false);
            }
            id += 1;
        }
        Ok(id == end)
    }

    /// The filter of a batch, and the number of its first document.
    fn batch(&self) -> (Document, i32) {
        let number = self.sequence.rem_euclid(BATCHES);
        (doc! { "batch": number }, number * BATCH_LEN)
    }
}

/// Whether the responder meant an operation to fail.
fn is_planned(error: &MongoError) -> bool {
    matches!(&*error.kind, ErrorKind::Command(failure) if failure.code == PLANNED_CODE)
}
