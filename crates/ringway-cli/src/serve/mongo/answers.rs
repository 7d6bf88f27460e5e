//! Answers to commands.

use std::sync::Arc;

use ringway_mongo::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, MsgFlags, OpHeader, OpMsg};

use super::tally::MongoTally;
use crate::mongo_books::{BATCH_LEN, BATCHES, Book, PLANNED_CODE, PLANNED_EVERY};

/// Makes answers of one connection.
pub(super) struct Answers {
    tally: Arc<MongoTally>,
    /// Arrays of documents that were asked for, by the number of the batch.
    batches: Vec<Option<RawDocumentBuf>>,
    /// The number of the last answer.
    id: i32,
}

impl Answers {
    pub(super) fn new(tally: Arc<MongoTally>) -> Self {
        Self { tally, batches: vec![None; BATCHES as usize], id: 0 }
    }

    /// Appends the answer to a command, unless it wants none.
    pub(super) fn answer(&mut self, header: &OpHeader, command: &OpMsg<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        self.id = self.id.wrapping_add(1);
        let writer = CommandWriter::new(out, self.id);
        self.write(command, writer);
        if command.flags().has(MsgFlags::MORE_TO_COME) {
            out.truncate(start);
            return;
        }
        out[start + 8..start + 12].copy_from_slice(&header.request_id.to_le_bytes());
    }

    fn write(&mut self, command: &OpMsg<'_>, mut writer: CommandWriter<'_>) {
        let body = command.body();
        let first = body.iter().next().and_then(Result::ok);
        let name = first.map_or("", |(name, _)| name.as_str());
        match name {
            "hello" | "isMaster" | "ismaster" => hello(&mut writer),
            "endSessions" | "killCursors" | "dropDatabase" => writer.i32("ok", 1),
            _ if self.tally.count().is_multiple_of(PLANNED_EVERY) => {
                self.tally.count_refused();
                fail(&mut writer, PLANNED_CODE, "one command in 10,000 fails");
            }
            "ping" => {
                writer.i32("answer", self.id);
                writer.i32("ok", 1);
            }
            "find" => self.find(body, &mut writer),
            "insert" => insert(command, &mut writer),
            _ => fail(&mut writer, 59, "the responder knows ping, find and insert"),
        }
        // Nothing here is near the bound of a message.
        _ = writer.finish();
    }

    /// Answers with one document by its `_id`, or with all of a batch.
    fn find(&mut self, body: &RawDocument, writer: &mut CommandWriter<'_>) {
        let filter = body.get_document("filter").ok();
        let field = filter.and_then(|filter| filter.iter().next()).and_then(Result::ok);
        let asked = field.map(|(name, value)| (name.as_str(), value));
        match asked {
            Some(("_id", RawBsonRef::Int32(id))) => {
                writer.nested("cursor", |cursor| {
                    describe(cursor);
                    cursor.array("firstBatch", |batch| {
                        batch.nested("0", |book| Book::write(id, book));
                    });
                });
                writer.i32("ok", 1);
            }
            Some(("batch", RawBsonRef::Int32(number))) if (0..BATCHES).contains(&number) => {
                let batch = self.batches[number as usize].get_or_insert_with(|| make_batch(number));
                writer.nested("cursor", |cursor| {
                    describe(cursor);
                    cursor.raw_array("firstBatch", batch);
                });
                writer.i32("ok", 1);
            }
            _ => fail(writer, 2, "the filter has to be an _id or a batch"),
        }
    }
}

fn hello(writer: &mut CommandWriter<'_>) {
    writer.bool("helloOk", true);
    writer.bool("isWritablePrimary", true);
    writer.bool("ismaster", true);
    writer.i32("maxBsonObjectSize", 16 << 20);
    writer.i32("maxMessageSizeBytes", 48_000_000);
    writer.i32("maxWriteBatchSize", 100_000);
    writer.i32("logicalSessionTimeoutMinutes", 30);
    writer.i32("connectionId", 1);
    writer.i32("minWireVersion", 0);
    writer.i32("maxWireVersion", 21);
    writer.bool("readOnly", false);
    writer.i32("ok", 1);
}

fn describe(cursor: &mut CommandWriter<'_>) {
    cursor.i64("id", 0);
    cursor.str("ns", "ringway_bench.books");
}

fn fail(writer: &mut CommandWriter<'_>, code: i32, message: &str) {
    writer.i32("ok", 0);
    writer.str("errmsg", message);
    writer.i32("code", code);
}

/// Counts the documents, each of which begins with its `_id`.
fn insert(command: &OpMsg<'_>, writer: &mut CommandWriter<'_>) {
    let is_whole = |document: &RawDocument| matches!(document.iter().next(), Some(Ok((key, _))) if key == "_id");
    let mut count = 0;
    for document in command.sequences().flat_map(|sequence| sequence.documents()) {
        if !is_whole(document) {
            return fail(writer, 2, "a document does not begin with its _id");
        }
        count += 1;
    }
    writer.i32("n", count);
    writer.i32("ok", 1);
}

/// The documents of a batch as an array.
fn make_batch(number: i32) -> RawDocumentBuf {
    CommandWriter::document_of(|array| {
        for index in 0..BATCH_LEN {
            array.nested(&index.to_string(), |book| Book::write(number * BATCH_LEN + index, book));
        }
    })
}
