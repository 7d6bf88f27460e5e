//! Running many writes, in as few commands as servers take.

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use bson::{Bson, RawDocument, RawDocumentBuf};
use ringway_wire::mongo::{CommandTemplate, CommandWriter, SequenceWriter, ServerFailure};

use super::settings::{Fields, Settings};
use super::update::upserted;
use super::write_reply;
use crate::bulk_failure::{BulkFailure, BulkWriteResult};
use crate::client_core::{ClientCore, Purpose, Slot};
use crate::collection_shared::CommandKind;
use crate::connection::{Answer, ServerLimits, unsendable};
use crate::error::{Error, Fate, Kind, Result, ServerError};
use crate::limits::BATCH_WRITES_MAX;

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
    let is_asked = statements[0].kind.is_unanswered(settings.concerns_now());
    let is_unanswered = is_asked && !settings.is_in_transaction();
    let (mut done, mut answered) = (BulkFailure::default(), 0);
    for run in runs {
        let mut left = &order[run];
        while !left.is_empty() && (!is_ordered || done.write_errors.is_empty()) {
            let sent = send(settings, core, statements, left, is_ordered).await;
            let added = sent.and_then(|(count, reply)| {
                let (batch, rest) = left.split_at(count);
                left = rest;
                answered += count;
                add(&mut done, statements, batch, &reply)
            });
            if let Err(error) = added {
                // Nothing is known of those that were sent before, but that they were.
                if is_unanswered && answered > 0 {
                    return Err(error.in_the_middle());
                }
                note_inserted(&mut done, statements, &order[..answered], is_ordered);
                return Err(error.with_bulk(done));
            }
        }
    }
    match done.write_errors.is_empty() && done.write_concern_errors.is_empty() {
        true => Ok(done.result),
        false => {
            note_inserted(&mut done, statements, &order[..answered], is_ordered);
            Err(Error::bulk_write(done, statements.len()))
        }
    }
}

/// Notes which documents are there although others failed: of those that were answered, in the order of their sending.
fn note_inserted(
    done: &mut BulkFailure,
    statements: &[BulkStatement],
    answered: &[usize],
    is_ordered: bool,
) {
    let failed: HashSet<usize> = done.write_errors.iter().map(|error| error.index).collect();
    for at in answered {
        let statement = &statements[*at];
        match failed.contains(at) {
            // Nothing behind it was done.
            true if is_ordered => break,
            false if statement.kind == CommandKind::Insert => {
                let id = statement.id().unwrap_or(Bson::Null);
                done.result.inserted_ids.insert(*at, id);
            }
            _ => {}
        }
    }
}

/// The order in which the writes are sent, and which of them are of one kind and follow each other.
fn plan(statements: &[BulkStatement], is_ordered: bool) -> (Vec<usize>, Vec<Range<usize>>) {
    let mut order: Vec<usize> = (0..statements.len()).collect();
    if !is_ordered {
        order.sort_by_key(|at| statements[*at].kind as usize);
    }
    let (mut runs, mut start) = (Vec::new(), 0);
    for run in order.chunk_by(|one, next| statements[*one].kind == statements[*next].kind) {
        runs.push(start..start + run.len());
        start += run.len();
    }
    (order, runs)
}

/// Sends as many writes of one kind as the server takes. Returns how many, and the reply.
async fn send(
    settings: &mut Settings,
    core: &Rc<ClientCore>,
    statements: &[BulkStatement],
    left: &[usize],
    is_ordered: bool,
) -> Result<(usize, RawDocumentBuf)> {
    let kind = statements[left[0]].kind;
    let left = &left[..left.len().min(BATCH_WRITES_MAX)];
    // A write that is sent again has to be the same, whatever another server takes.
    let count = Cell::new(None);
    let write_in = |slot: Slot<'_>, template: &CommandTemplate, fields: &Fields| {
        let limits = slot.limits();
        let mut command = slot.begin(template);
        put_options(kind, fields, &mut command);
        command.bool("ordered", is_ordered);
        let documents = left.iter().map(|at| &*statements[*at].document);
        let written =
            put_documents(command.sequence(list_of(kind)), documents, limits, count.get())?;
        count.set(Some(written));
        Ok(written)
    };
    let write = |mut slot: Slot<'_>, template: &CommandTemplate, fields: &Fields| {
        let begin = slot.out.len();
        let written = write_in(slot.reborrow(), template, fields)?;
        // How many writes fit is known when they are written, and only then whether they may be repeated.
        if slot.is_numbered() && left[..written].iter().any(|at| statements[*at].is_multi) {
            slot.out.truncate(begin);
            slot.send_once();
            write_in(slot, template, fields)?;
        }
        Ok(())
    };
    let keep = |answer: Answer<'_>| Ok(answer.body().to_owned());
    let mut session = settings.used_session(core)?;
    let command = (kind, Purpose::Write);
    let reply = settings.run_written(core, &mut session, command, write, keep).await?;
    Ok((count.get().expect("it was written, as it was answered"), reply))
}

/// The field of a command that has its writes.
fn list_of(kind: CommandKind) -> &'static str {
    match kind {
        CommandKind::Insert => "documents",
        CommandKind::Update => "updates",
        _ => "deletes",
    }
}

/// Writes the options of all writes, but for one that a command of the kind does not know.
fn put_options(kind: CommandKind, fields: &Fields, command: &mut CommandWriter<'_>) {
    match kind {
        CommandKind::Insert => fields.write_without("let", command),
        CommandKind::Delete => fields.write_without("bypassDocumentValidation", command),
        _ => fields.write(command),
    }
}

/// Ends a command with as many documents as its server takes, or with `planned` ones. Returns how many.
fn put_documents<'d>(
    mut sequence: SequenceWriter<'_>,
    documents: impl Iterator<Item = &'d RawDocument>,
    limits: ServerLimits,
    planned: Option<usize>,
) -> Result<usize> {
    let mut count = 0;
    for document in documents {
        let is_full = match planned {
            Some(planned) => count == planned,
            // A single one that is too long is the server's to refuse.
            None => {
                let len = sequence.command_len() + document.as_bytes().len();
                count > 0 && (count >= limits.writes_max || len > limits.message_len_max)
            }
        };
        if is_full {
            break;
        }
        sequence.document(document);
        count += 1;
    }
    sequence.finish().map_err(unsendable)?;
    Ok(count)
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
