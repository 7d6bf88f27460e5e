//! What has become of each write of a `bulkWrite`.

use bson::{Bson, RawBsonRef, RawDocument};
use ringway_wire::mongo::{CommandReply, MongoFault, ServerFailure, check_nesting};

use super::super::write_reply::count;
use super::encode::Op;
use crate::bulk_failure::{BulkFailure, WriteOutcome};
use crate::collection_shared::CommandKind;
use crate::error::{Error, Result, ServerError};

/// Adds the counts of a reply.
pub(super) fn add_counts(done: &mut BulkFailure, reply: &RawDocument) -> Result {
    let result = &mut done.result;
    let counts = [
        ("nInserted", &mut result.inserted),
        ("nMatched", &mut result.matched),
        ("nModified", &mut result.modified),
        ("nDeleted", &mut result.deleted),
        ("nUpserted", &mut result.upserted),
    ];
    for (name, sum) in counts {
        // A server may count whatever it likes.
        *sum = sum.saturating_add(count(reply, name));
    }
    if let Some(failure) = ServerFailure::of_write_concern(reply).map_err(Error::reply)? {
        done.write_concern_errors.push(ServerError::of(failure));
    }
    Ok(())
}

/// Adds an entry of the cursor: of a write that failed, or of any if all are wanted. The first one of the command is the
/// write `from` of all.
pub(super) fn add(
    done: &mut BulkFailure,
    batch: &[Op],
    from: usize,
    entry: &RawDocument,
) -> Result {
    let at = usize::try_from(count(entry, "idx")).unwrap_or(usize::MAX);
    let op = batch.get(at).ok_or_else(|| Error::reply(MongoFault::Field("idx")))?;
    let index = from + at;
    if let CommandReply::Failed(failure) = CommandReply::of(entry).map_err(Error::reply)? {
        let mut error = ServerError::of(failure);
        error.index = index;
        done.write_errors.push(error);
        return Ok(());
    }
    let outcome = match op.kind {
        CommandKind::Insert => WriteOutcome::Inserted { id: op.id.clone().unwrap_or(Bson::Null) },
        CommandKind::Update => {
            let upserted_id = upserted(entry).map_err(Error::reply)?;
            if let Some(id) = &upserted_id {
                done.result.upserted_ids.insert(index, id.clone());
            }
            let (matched, modified) = (count(entry, "n"), count(entry, "nModified"));
            WriteOutcome::Updated { matched, modified, upserted_id }
        }
        _ => WriteOutcome::Deleted { deleted: count(entry, "n") },
    };
    done.result.outcomes.insert(index, outcome);
    Ok(())
}

/// The `_id` of the document that was written because none matched.
fn upserted(entry: &RawDocument) -> Result<Option<Bson>, MongoFault> {
    let wrong = || MongoFault::Field("upserted");
    let Some(upserted) = entry.get("upserted").map_err(|_| wrong())? else { return Ok(None) };
    check_nesting(entry)?;
    let upserted = upserted.as_document().ok_or_else(wrong)?;
    let id: RawBsonRef<'_> = upserted.get("_id").ok().flatten().ok_or_else(wrong)?;
    Bson::try_from(id).map(Some).map_err(|_| wrong())
}
