//! Running many writes, in as few commands as servers take.

use std::ops::Range;
use std::rc::Rc;

use bson::{Bson, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandWriter, ServerFailure};

use super::settings::Settings;
use super::update::upserted;
use super::write_reply;
use crate::bulk_failure::{BulkFailure, BulkWriteResult};
use crate::client_core::{ClientCore, Purpose};
use crate::collection_shared::CommandKind;
use crate::connection::Answer;
use crate::error::{Error, Fate, Kind, Result, ServerError};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};

/// One write: a document to insert, or an entry of `updates` or `deletes`.
pub(crate) struct BulkStatement {
    pub(crate) kind: CommandKind,
    pub(crate) is_multi: bool,
    pub(crate) document: RawDocumentBuf,
}

impl BulkStatement {
    /// The `_id` of a document to insert.
    pub(crate) fn id(&self) -> Result<Bson> {
        let id = self.document.get("_id").map_err(Error::encoding)?;
        id.map_or(Ok(Bson::Null), |id| Bson::try_from(id).map_err(Error::encoding))
    }
}

/// Runs the writes in order, until one fails; or all of them, in any order.
pub(crate) async fn run(
    settings: &mut Settings,
    core: &Rc<ClientCore>,
    statements: &[BulkStatement],
    is_ordered: bool,
) -> Result<BulkWriteResult> {
    if statements.is_empty() {
        return Err(Error::new(Kind::Options, Fate::NotSent, "there is nothing to write"));
    }
    settings.begin();
    let (order, runs) = plan(statements, is_ordered);
    let mut done = BulkFailure::default();
    for run in runs {
        let batch = &order[run];
        match send(settings, core, statements, batch, is_ordered).await {
            Ok(reply) => {
                if let Err(error) = add(&mut done, statements, batch, &reply) {
                    return Err(error.with_bulk(done));
                }
            }
            Err(error) => return Err(error.with_bulk(done)),
        }
        if is_ordered && !done.write_errors.is_empty() {
            break;
        }
    }
    match done.write_errors.is_empty() && done.write_concern_errors.is_empty() {
        true => Ok(done.result),
        false => Err(Error::bulk_write(done, statements.len())),
    }
}

/// The order in which the writes are sent, and which of them are sent together.
fn plan(statements: &[BulkStatement], is_ordered: bool) -> (Vec<usize>, Vec<Range<usize>>) {
    let mut order: Vec<usize> = (0..statements.len()).collect();
    if !is_ordered {
        order.sort_by_key(|at| statements[*at].kind as usize);
    }
    let (mut runs, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, index) in order.iter().enumerate() {
        let statement = &statements[*index];
        let len = statement.document.as_bytes().len();
        let is_full = at - start == BATCH_WRITES_MAX || bytes + len > BATCH_BYTES_MAX;
        // A single one that is too long is the server's to refuse.
        if at > start && (is_full || statements[order[start]].kind != statement.kind) {
            runs.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes += len;
    }
    runs.push(start..order.len());
    (order, runs)
}

async fn send(
    settings: &mut Settings,
    core: &Rc<ClientCore>,
    statements: &[BulkStatement],
    batch: &[usize],
    is_ordered: bool,
) -> Result<RawDocumentBuf> {
    let kind = statements[batch[0]].kind;
    let name = match kind {
        CommandKind::Insert => "documents",
        CommandKind::Update => "updates",
        _ => "deletes",
    };
    let is_once = batch.iter().any(|at| statements[*at].is_multi);
    let purpose = if is_once { Purpose::WriteOnce } else { Purpose::Write };
    let write = |mut command: CommandWriter<'_>| {
        command.bool("ordered", is_ordered);
        let mut sequence = command.sequence(name);
        for at in batch {
            sequence.document(&statements[*at].document);
        }
        sequence.finish()
    };
    let keep = |answer: Answer<'_>| Ok(answer.body().to_owned());
    settings.run(core, (kind, purpose), write, keep).await
}

/// Adds what a command has done.
fn add(
    done: &mut BulkFailure,
    statements: &[BulkStatement],
    batch: &[usize],
    reply: &RawDocument,
) -> Result {
    let index_of = |at: usize| batch.get(at).copied().unwrap_or(usize::MAX);
    // A server may count whatever it likes.
    let total = |sum: &mut u64, more| *sum = sum.saturating_add(more);
    let (result, touched) = (&mut done.result, write_reply::count(reply, "n"));
    match statements[batch[0]].kind {
        CommandKind::Insert => total(&mut result.inserted, touched),
        CommandKind::Update => {
            let upserted = upserted(reply).map_err(Error::reply)?;
            total(&mut result.matched, touched.saturating_sub(upserted.len() as u64));
            total(&mut result.modified, write_reply::count(reply, "nModified"));
            total(&mut result.upserted, upserted.len() as u64);
            let ids = upserted.into_iter().map(|(at, id)| (index_of(at), id));
            result.upserted_ids.extend(ids);
        }
        _ => total(&mut result.deleted, touched),
    }
    for failure in ServerFailure::of_writes(reply).map_err(Error::reply)? {
        let mut error = ServerError::of(failure);
        error.index = index_of(error.index);
        done.write_errors.push(error);
    }
    if let Some(failure) = ServerFailure::of_write_concern(reply).map_err(Error::reply)? {
        done.write_concern_errors.push(ServerError::of(failure));
    }
    Ok(())
}
