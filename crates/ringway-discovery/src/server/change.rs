//! Put and DeleteRange: changing keys.

use bytes::Bytes;
use ringway_rpc::Status;

use super::failure;
use crate::etcd::api::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
};
use crate::limits;
use crate::store::{KeyRange, LeaseError, LeaseId, Store, Transaction};

/// Checks what can be checked without the store.
pub(super) fn check_put(put: &PutRequest) -> Result<(), Status> {
    if put.key.is_empty() {
        return Err(failure::key_not_provided());
    }
    if put.ignore_value && !put.value.is_empty() {
        return Err(failure::value_provided());
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(failure::lease_provided());
    }
    Ok(())
}

/// Checks what can be checked without the store.
pub(super) fn check_delete(delete: &DeleteRangeRequest) -> Result<(), Status> {
    if delete.key.is_empty() { Err(failure::key_not_provided()) } else { Ok(()) }
}

/// Checks that a put of a transaction can be carried out. Returns the bytes that it needs.
pub(super) fn can_put(store: &Store, put: &PutRequest) -> Result<usize, Status> {
    if (put.ignore_value || put.ignore_lease) && store.get(&put.key).is_none() {
        return Err(failure::key_not_found());
    }
    has_lease_of(store, put)?;
    Ok(put.key.len() + put.value.len())
}

fn has_lease_of(store: &Store, put: &PutRequest) -> Result<(), Status> {
    let is_there = put.lease == 0 || store.has_lease(LeaseId(put.lease));
    if is_there { Ok(()) } else { Err(failure::lease(LeaseError::NotFound)) }
}

/// The bytes of the value that a key has after a put.
pub(super) fn value_len(store: &Store, put: &PutRequest) -> usize {
    let kept = put.ignore_value.then(|| store.get(&put.key)).flatten();
    kept.map_or(put.value.len(), |kept| kept.value.len())
}

/// The bytes that the answer to a put has of what was there before.
pub(super) fn bytes_before_put(store: &Store, put: &PutRequest) -> usize {
    let before = put.prev_kv.then(|| store.get(&put.key)).flatten();
    before.map_or(0, |before| before.key.len() + before.value.len())
}

/// The bytes that the answer to a deletion has of what was there before.
pub(super) fn bytes_before_delete(store: &Store, delete: &DeleteRangeRequest) -> usize {
    if !delete.prev_kv {
        return 0;
    }
    let range = KeyRange::from_wire(delete.key.clone(), delete.range_end.clone());
    let mut bytes = 0;
    let visited = store.visit(&range, None, usize::MAX, |found| bytes += found.content_len());
    visited.map_or(0, |_keys| bytes)
}

/// Checks that there is room for so many bytes more.
pub(super) fn has_space(store: &Store, bytes: usize) -> Result<(), Status> {
    let fits = store.bytes() + bytes <= limits::KEYS_BYTES_MAX && store.len() < limits::KEYS_MAX;
    if fits || bytes == 0 { Ok(()) } else { Err(failure::no_space()) }
}

/// Carries out a checked put by itself.
pub(super) fn put(store: &mut Store, put: PutRequest) -> Result<PutResponse, Status> {
    has_lease_of(store, &put)?; // by itself, etcd looks for the lease before the key
    let bytes = can_put(store, &put)?;
    has_space(store, bytes)?;
    store.change(|change| put_in(change, put)).0
}

/// Carries out a put that is possible.
pub(super) fn put_in(change: &mut Transaction<'_>, put: PutRequest) -> Result<PutResponse, Status> {
    let PutRequest { key, value, mut lease, prev_kv, ignore_value, ignore_lease } = put;
    // What is decoded may share the memory of a request that is a thousand times as large. The store copies the value.
    let (key, mut value) = (Bytes::copy_from_slice(&key), value);
    if ignore_value || ignore_lease {
        let kept = change.store().get(&key).ok_or_else(failure::key_not_found)?;
        value = if ignore_value { kept.value } else { value };
        lease = if ignore_lease { kept.lease.0 } else { lease };
    }
    let before = change.put(key, value, LeaseId(lease)).map_err(failure::lease)?;
    Ok(PutResponse { header: None, prev_kv: before.filter(|_| prev_kv).map(Into::into) })
}

/// Carries out a checked deletion by itself.
pub(super) fn delete(
    store: &mut Store,
    delete: DeleteRangeRequest,
) -> Result<DeleteRangeResponse, Status> {
    if bytes_before_delete(store, &delete) > limits::READ_BYTES_MAX {
        return Err(failure::too_much_read());
    }
    Ok(store.change(|change| delete_in(change, delete)).0)
}

pub(super) fn delete_in(
    change: &mut Transaction<'_>,
    delete: DeleteRangeRequest,
) -> DeleteRangeResponse {
    let DeleteRangeRequest { key, range_end, prev_kv } = delete;
    let gone = change.delete(&KeyRange::from_wire(key, range_end));
    let deleted = i64::try_from(gone.len()).unwrap_or(i64::MAX);
    let prev_kvs = if prev_kv { gone.into_iter().map(Into::into).collect() } else { Vec::new() };
    DeleteRangeResponse { header: None, deleted, prev_kvs }
}
