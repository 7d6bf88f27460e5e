//! The same operations by the driver's blocking client, each connection with a thread of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use mongodb::error::Result as MongoResult;
use mongodb::options::ClientOptions;
use mongodb::sync::{Client, Collection, Database};
use tokio::task::{JoinSet, spawn_blocking};

use super::books::{
    BATCH_LEN, BATCHES, BOOKS, BULK_LEN, Book, DATABASE, READ, WRITTEN, is_owned_book, is_raw_book,
};
use super::is_planned;
use crate::args::{MongoOp, MongoOptions};
use crate::client::run::{Error, Next, Run};

/// Starts a thread for each connection.
pub(super) async fn start(
    uri: &str,
    options: &MongoOptions,
    run: &Arc<Run>,
    threads: &mut JoinSet<()>,
) -> Result<(), Error> {
    let mut parsed = ClientOptions::parse(uri).await?;
    parsed.max_pool_size = Some(u32::try_from(options.load.connections)?);
    // Its client refuses to be made where tasks run.
    let client = spawn_blocking(|| Client::with_options(parsed)).await??;
    let counting = Arc::<Mutex<()>>::default();
    for number in 0..options.load.connections {
        let lane = BlockingLane::new(&client.database(DATABASE), number as i32);
        let (op, run, counting) = (options.op, Arc::clone(run), Arc::clone(&counting));
        threads.spawn_blocking(move || lane.run(op, &run, &counting));
    }
    Ok(())
}

/// The operations of one thread.
struct BlockingLane {
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

impl BlockingLane {
    fn new(database: &Database, number: i32) -> Self {
        let document = |n: usize| rawdoc! { "n": n as i32, "text": "one of many", "lane": number };
        Self {
            database: database.clone(),
            raw: database.collection(READ),
            books: database.collection(READ),
            owned: database.collection(READ),
            written: database.collection(WRITTEN),
            sequence: number.wrapping_mul(131),
            bulk: (0..BULK_LEN).map(document).collect(),
        }
    }

    /// `counting` keeps threads from counting at the same time, since the counts are those of one thread.
    fn run(mut self, op: MongoOp, run: &Run, counting: &Mutex<()>) {
        loop {
            let begun = Instant::now();
            self.sequence = self.sequence.wrapping_add(1);
            let outcome = self.one(op);
            let now = Instant::now();
            let _counting = counting.lock().unwrap_or_else(PoisonError::into_inner);
            let next = match outcome {
                Ok(is_right) => run.on_reply(is_right, begun, now),
                Err(error) if is_planned(&error) => run.on_message(true),
                Err(error) => return run.on_error(&error.into()),
            };
            if next == Next::End {
                return;
            }
        }
    }

    /// Tells whether the reply was the one that was due.
    fn one(&mut self, op: MongoOp) -> MongoResult<bool> {
        match op {
            MongoOp::Ping => {
                self.database.run_command(doc! { "ping": 1 }).run()?;
                Ok(true)
            }
            MongoOp::InsertOne => self.insert_one(),
            MongoOp::Mixed if self.sequence % 5 == 0 => self.insert_one(),
            MongoOp::FindOne | MongoOp::Mixed => self.find_one(),
            MongoOp::FindRaw => self.find_raw(),
            MongoOp::FindStruct => self.find_struct(),
            MongoOp::FindOwned => self.find_owned(),
            MongoOp::Bulk => {
                let written = self.written.insert_many(&self.bulk).run()?;
                Ok(written.inserted_ids.len() == BULK_LEN)
            }
        }
    }

    fn find_one(&self) -> MongoResult<bool> {
        let id = self.sequence.rem_euclid(BOOKS);
        let found = self.raw.find_one(doc! { "_id": id }).run()?;
        Ok(found.is_some_and(|book| is_raw_book(&book, id)))
    }

    fn insert_one(&self) -> MongoResult<bool> {
        let document = rawdoc! { "n": self.sequence, "text": "one of many", "price": 1.5 };
        let written = self.written.insert_one(&document).run()?;
        Ok(matches!(written.inserted_id, Bson::ObjectId(_)))
    }

    fn find_raw(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.raw.find(filter).batch_size(BATCH_LEN as u32).run()?;
        let end = id + BATCH_LEN;
        while cursor.advance()? {
            if !is_raw_book(cursor.current(), id) {
                return Ok(false);
            }
            id += 1;
        }
        Ok(id == end)
    }

    fn find_struct(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.books.find(filter).batch_size(BATCH_LEN as u32).run()?;
        let end = id + BATCH_LEN;
        while cursor.advance()? {
            if !cursor.deserialize_current()?.is(id) {
                return Ok(false);
            }
            id += 1;
        }
        Ok(id == end)
    }

    fn find_owned(&self) -> MongoResult<bool> {
        let (filter, mut id) = self.batch();
        let mut cursor = self.owned.find(filter).batch_size(BATCH_LEN as u32).run()?;
        let end = id + BATCH_LEN;
        while cursor.advance()? {
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
