//! Txn: comparing, and then changing or reading, at one revision.
//!
//! Everything that can fail is checked before anything is changed, because a store has no way back.

use std::cmp::Ordering;
use std::collections::HashSet;

use bytes::Bytes;
use ringway_rpc::Status;

use super::read::{self, FoundKeys};
use super::trouble::Effect;
use super::{change, failure};
use crate::etcd::api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::etcd::api::etcdserverpb::request_op::Request;
use crate::etcd::api::etcdserverpb::response_op::Response;
use crate::etcd::api::etcdserverpb::{
    Compare, DeleteRangeResponse, PutResponse, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use crate::limits;
use crate::store::{KeyRange, KeyValue, ReadError, Revision, Store, Transaction};

/// Checks what can be checked without the store: sizes, keys, and that no key is changed twice.
pub(super) fn check(request: &TxnRequest) -> Result<(), Status> {
    let mut left = limits::TXN_OPERATIONS_TOTAL_MAX;
    check_operations(request, &mut left)?;
    keys_changed(&request.success)?;
    keys_changed(&request.failure)?;
    Ok(())
}

fn check_operations(request: &TxnRequest, left: &mut usize) -> Result<(), Status> {
    let TxnRequest { compare, success, failure: otherwise } = request;
    if compare.len().max(success.len()).max(otherwise.len()) > limits::TXN_OPERATIONS_MAX {
        return Err(failure::too_many_operations());
    }
    let operations = compare.len() + success.len() + otherwise.len();
    *left = left.checked_sub(operations).ok_or_else(failure::too_many_operations)?;
    if compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(failure::key_not_provided());
    }
    success.iter().chain(otherwise).try_for_each(|operation| match &operation.request {
        Some(Request::RequestRange(range)) => read::check(range),
        Some(Request::RequestPut(put)) => change::check_put(put),
        Some(Request::RequestDeleteRange(delete)) => change::check_delete(delete),
        Some(Request::RequestTxn(nested)) => check_operations(nested, left),
        None => Err(failure::key_not_found()),
    })
}

/// What one branch of a transaction changes.
#[derive(Default)]
struct Changed<'a> {
    puts: HashSet<&'a [u8]>,
    deletes: Vec<KeyRange>,
}

impl<'a> Changed<'a> {
    fn add_put(&mut self, key: &'a [u8]) -> Result<(), Status> {
        // etcd does not compare puts with deletions that have no end.
        let is_compared = |range: &&KeyRange| !matches!(range, KeyRange::From(_));
        let is_deleted = self.deletes.iter().filter(is_compared).any(|range| range.contains(key));
        if is_deleted || !self.puts.insert(key) { Err(failure::duplicate_key()) } else { Ok(()) }
    }
}

/// The keys that the operations change. Deletions of this level and puts of all others must not meet.
fn keys_changed(operations: &[RequestOp]) -> Result<Changed<'_>, Status> {
    let mut changed = Changed::default();
    for operation in operations {
        if let Some(Request::RequestDeleteRange(delete)) = &operation.request {
            changed.deletes.push(KeyRange::from_wire(delete.key.clone(), delete.range_end.clone()));
        }
    }
    for operation in operations {
        if let Some(Request::RequestTxn(nested)) = &operation.request {
            let (success, otherwise) =
                (keys_changed(&nested.success)?, keys_changed(&nested.failure)?);
            // Only one of the two is carried out.
            for key in success.puts.union(&otherwise.puts) {
                changed.add_put(key)?;
            }
            changed.deletes.extend(success.deletes.into_iter().chain(otherwise.deletes));
        }
    }
    for operation in operations {
        if let Some(Request::RequestPut(put)) = &operation.request {
            changed.add_put(&put.key)?;
        }
    }
    Ok(changed)
}

/// What a transaction may do, whichever branches are taken; `None` if it only reads.
pub(super) fn effect(request: &TxnRequest) -> Option<Effect> {
    let operations = request.success.iter().chain(&request.failure);
    let effects = operations.filter_map(|operation| match &operation.request {
        Some(Request::RequestPut(_)) => Some(Effect::Adds),
        Some(Request::RequestDeleteRange(_)) => Some(Effect::Frees),
        Some(Request::RequestTxn(nested)) => effect(nested),
        Some(Request::RequestRange(_)) | None => None,
    });
    effects.reduce(|one, other| if one == Effect::Adds { one } else { other })
}

/// Carries out a checked transaction that only reads, as the keys were at a revision.
pub(super) fn read(store: &Store, request: TxnRequest, at: Revision) -> Result<Answered, Status> {
    let mut keys_left = limits::TXN_KEYS_MAX;
    let path = choose(store, request, at, &mut keys_left)?;
    let mut left = Left::of(keys_left);
    can_run((store, at), &path, &[], &mut left)?;
    answer(store, path, at)
}

fn answer(store: &Store, chosen: Chosen, at: Revision) -> Result<Answered, Status> {
    let mut answers = Vec::with_capacity(chosen.steps.len());
    for step in chosen.steps {
        answers.push(match step {
            Step::Nested(nested) => TxnAnswer::Nested(answer(store, nested, at)?),
            Step::Operation(Request::RequestRange(request)) => {
                let range = KeyRange::from_wire(request.key.clone(), request.range_end.clone());
                TxnAnswer::Range(read::find(store, &request, &range, at)?, header_of(at))
            }
            Step::Operation(_) => continue, // it only reads
        });
    }
    Ok(Answered { succeeded: chosen.succeeded, answers })
}

/// Carries out a checked transaction.
pub(super) fn run(store: &mut Store, request: TxnRequest) -> Result<Answered, Status> {
    let mut keys_left = limits::TXN_KEYS_MAX;
    let at = store.revision();
    let path = choose(store, request, at, &mut keys_left)?;
    let (mut puts, mut deleted) = (Vec::new(), Vec::new());
    let bytes = can_put(store, &path, &mut puts, &mut deleted)?;
    let mut left = Left::of(keys_left);
    can_run((store, at), &path, &puts, &mut left)?;
    change::has_space(store, bytes)?;
    store.change(|change| carry_out(change, path)).0
}

/// What a transaction has done and found. Its ranges are put in order when the registry is not locked any more.
pub(super) struct Answered {
    succeeded: bool,
    answers: Vec<TxnAnswer>,
}

enum TxnAnswer {
    Range(FoundKeys, Option<ResponseHeader>),
    Changed(Response),
    Nested(Answered),
}

impl Answered {
    /// The answer. The outer header is not filled in yet.
    pub(super) fn into_response(self) -> TxnResponse {
        let responses = self.answers.into_iter().map(|answer| match answer {
            TxnAnswer::Range(found, header) => {
                Response::ResponseRange(RangeResponse { header, ..found.into_response() })
            }
            TxnAnswer::Changed(response) => response,
            TxnAnswer::Nested(nested) => {
                let header = Some(ResponseHeader::default());
                Response::ResponseTxn(TxnResponse { header, ..nested.into_response() })
            }
        });
        let responses = responses.map(|response| ResponseOp { response: Some(response) }).collect();
        TxnResponse { header: None, succeeded: self.succeeded, responses }
    }
}

fn header_of(revision: Revision) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision: revision.0, ..ResponseHeader::default() })
}

/// A transaction of which only the branch is left that is carried out.
struct Chosen {
    succeeded: bool,
    steps: Vec<Step>,
}

enum Step {
    Operation(Request),
    Nested(Chosen),
}

/// All comparisons are made before anything is changed, those of nested transactions too.
fn choose(
    store: &Store,
    request: TxnRequest,
    at: Revision,
    keys_left: &mut usize,
) -> Result<Chosen, Status> {
    let mut succeeded = true;
    for compare in &request.compare {
        succeeded = succeeded && holds(store, compare, at, keys_left)?;
    }
    let operations = if succeeded { request.success } else { request.failure };
    let steps = operations.into_iter().filter_map(|operation| operation.request);
    let steps = steps.map(|operation| match operation {
        Request::RequestTxn(nested) => choose(store, nested, at, keys_left).map(Step::Nested),
        operation => Ok(Step::Operation(operation)),
    });
    Ok(Chosen { succeeded, steps: steps.collect::<Result<_, _>>()? })
}

/// Counts keys that a transaction meets.
fn meet(keys: usize, left: &mut usize) -> Result<(), Status> {
    *left = left.checked_sub(keys).ok_or_else(failure::too_many_keys)?;
    Ok(())
}

fn holds(
    store: &Store,
    compare: &Compare,
    at: Revision,
    keys_left: &mut usize,
) -> Result<bool, Status> {
    let range = KeyRange::from_wire(compare.key.clone(), compare.range_end.clone());
    let mut all_hold = true;
    let found = store.visit(&range, Some(at), usize::MAX, |found| {
        all_hold = all_hold && holds_for(compare, Some(&found.to_owned()));
    });
    let found = found.unwrap_or(0);
    meet(found, keys_left)?;
    if found == 0 {
        // A key that is not there has no value, not even an empty one.
        return Ok(compare.target() != CompareTarget::Value && holds_for(compare, None));
    }
    Ok(all_hold)
}

fn holds_for(compare: &Compare, found: Option<&KeyValue>) -> bool {
    let number = |of: fn(&KeyValue) -> i64| found.map_or(0, of);
    let (target, union) = (compare.target(), compare.target_union.as_ref());
    let order = match (target, union) {
        (CompareTarget::Value, Some(TargetUnion::Value(value))) => {
            found.map_or(&[][..], |found| &found.value).cmp(&value[..])
        }
        (CompareTarget::Value, _) => found.map_or(&[][..], |found| &found.value).cmp(&[]),
        (CompareTarget::Version, Some(TargetUnion::Version(version))) => {
            number(|it| it.version).cmp(version)
        }
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(at))) => {
            number(|it| it.create_revision.0).cmp(at)
        }
        (CompareTarget::Mod, Some(TargetUnion::ModRevision(at))) => {
            number(|it| it.mod_revision.0).cmp(at)
        }
        (CompareTarget::Lease, Some(TargetUnion::Lease(lease))) => {
            number(|it| it.lease.0).cmp(lease)
        }
        (CompareTarget::Version, _) => number(|it| it.version).cmp(&0),
        (CompareTarget::Create, _) => number(|it| it.create_revision.0).cmp(&0),
        (CompareTarget::Mod, _) => number(|it| it.mod_revision.0).cmp(&0),
        (CompareTarget::Lease, _) => number(|it| it.lease.0).cmp(&0),
    };
    match compare.result() {
        CompareResult::Equal => order == Ordering::Equal,
        CompareResult::NotEqual => order != Ordering::Equal,
        CompareResult::Greater => order == Ordering::Greater,
        CompareResult::Less => order == Ordering::Less,
    }
}

/// What a transaction may still meet and read.
struct Left {
    keys: usize,
    bytes: usize,
    /// Whether the steps so far have changed keys.
    has_changed: bool,
}

impl Left {
    fn of(keys: usize) -> Self {
        Self { keys, bytes: limits::READ_BYTES_MAX, has_changed: false }
    }

    /// Counts bytes that are answered.
    fn read(&mut self, bytes: usize) -> Result<(), Status> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(failure::too_much_read)?;
        Ok(())
    }
}

/// The key of a put, and the bytes of the value that it has then.
type Put<'a> = (&'a Bytes, usize);

/// Checks the puts, before anything else as etcd does. Returns the bytes that they need, and notes them. `deleted` is what
/// the steps before have deleted.
fn can_put<'a>(
    store: &Store,
    chosen: &'a Chosen,
    puts: &mut Vec<Put<'a>>,
    deleted: &mut Vec<KeyRange>,
) -> Result<usize, Status> {
    let mut bytes = 0;
    for step in &chosen.steps {
        bytes += match step {
            Step::Operation(Request::RequestPut(put)) => {
                // Of a key that is deleted before, nothing could be kept.
                let keeps = put.ignore_value || put.ignore_lease;
                if keeps && deleted.iter().any(|range| range.contains(&put.key)) {
                    return Err(failure::key_not_found());
                }
                puts.push((&put.key, change::value_len(store, put)));
                change::can_put(store, put)?
            }
            Step::Operation(Request::RequestDeleteRange(delete)) => {
                deleted.push(KeyRange::from_wire(delete.key.clone(), delete.range_end.clone()));
                0
            }
            Step::Operation(_) => 0,
            Step::Nested(nested) => can_put(store, nested, puts, deleted)?,
        };
    }
    Ok(bytes)
}

/// Checks that all steps can be carried out, with the keys as they are at a revision.
fn can_run(
    (store, at): (&Store, Revision),
    chosen: &Chosen,
    puts: &[Put<'_>],
    left: &mut Left,
) -> Result<(), Status> {
    for step in &chosen.steps {
        match step {
            Step::Operation(Request::RequestPut(put)) => {
                left.read(change::bytes_before_put(store, put))?;
                left.has_changed = true;
            }
            Step::Operation(Request::RequestRange(range)) => {
                can_read(store, range.revision)?;
                meet(keys_in((store, at), &range.key, &range.range_end), &mut left.keys)?;
                left.read(bytes_read((store, at), range, puts, left.has_changed)?)?;
            }
            Step::Operation(Request::RequestDeleteRange(delete)) => {
                meet(keys_in((store, at), &delete.key, &delete.range_end), &mut left.keys)?;
                left.read(change::bytes_before_delete(store, delete))?;
                left.has_changed = true;
            }
            Step::Operation(_) => {}
            Step::Nested(nested) => can_run((store, at), nested, puts, left)?,
        }
    }
    Ok(())
}

/// The bytes of the answer to a range; behind changes, the most that it can have then.
fn bytes_read(
    (store, at): (&Store, Revision),
    request: &RangeRequest,
    puts: &[Put<'_>],
    has_changed: bool,
) -> Result<usize, Status> {
    let range = KeyRange::from_wire(request.key.clone(), request.range_end.clone());
    if !has_changed || request.revision > 0 {
        return Ok(read::find(store, request, &range, at)?.content_len());
    }
    let put = puts.iter().filter(|(key, _)| range.contains(key));
    let put = put.map(|(key, value_len)| (key.len(), *value_len));
    read::bytes_at_most(store, request, &range, put)
}

/// The number of keys of a range at a revision.
fn keys_in((store, at): (&Store, Revision), key: &Bytes, range_end: &Bytes) -> usize {
    let range = KeyRange::from_wire(key.clone(), range_end.clone());
    store.read(&range, Some(at), 0).map_or(0, |read| read.count)
}

fn can_read(store: &Store, revision: i64) -> Result<(), Status> {
    let error = match Revision(revision) {
        at if at > store.revision() => ReadError::Future,
        at if revision != 0 && at < store.last_compaction() => ReadError::Compacted,
        _ => return Ok(()),
    };
    Err(failure::compacted_or_future(error))
}

fn carry_out(change: &mut Transaction<'_>, chosen: Chosen) -> Result<Answered, Status> {
    let mut answers = Vec::with_capacity(chosen.steps.len());
    for step in chosen.steps {
        answers.push(match step {
            Step::Nested(nested) => TxnAnswer::Nested(carry_out(change, nested)?),
            Step::Operation(Request::RequestRange(request)) => {
                let store = change.store();
                let range = KeyRange::from_wire(request.key.clone(), request.range_end.clone());
                let found = read::find(store, &request, &range, store.revision())?;
                TxnAnswer::Range(found, header_of(change.revision()))
            }
            Step::Operation(Request::RequestPut(put)) => {
                let put = change::put_in(change, put)?;
                let header = header_of(change.revision());
                TxnAnswer::Changed(Response::ResponsePut(PutResponse { header, ..put }))
            }
            Step::Operation(Request::RequestDeleteRange(delete)) => {
                let gone = change::delete_in(change, delete);
                let header = header_of(change.revision());
                let gone = DeleteRangeResponse { header, ..gone };
                TxnAnswer::Changed(Response::ResponseDeleteRange(gone))
            }
            Step::Operation(Request::RequestTxn(_)) => continue, // it became `Nested`
        });
    }
    Ok(Answered { succeeded: chosen.succeeded, answers })
}
