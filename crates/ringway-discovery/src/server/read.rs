//! Range: reading keys.

use bytes::Bytes;
use ringway_rpc::Status;

use super::failure;
use crate::etcd::api::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::etcd::api::etcdserverpb::{RangeRequest, RangeResponse};
use crate::etcd::api::mvccpb;
use crate::limits;
use crate::store::{KeyRange, KeyValue, ReadError, Revision, Store};

/// Checks what can be checked without the store.
pub(super) fn check(request: &RangeRequest) -> Result<(), Status> {
    if request.key.is_empty() {
        return Err(failure::key_not_provided());
    }
    let knows = SortOrder::try_from(request.sort_order).is_ok()
        && SortTarget::try_from(request.sort_target).is_ok();
    if knows { Ok(()) } else { Err(failure::invalid_sort()) }
}

/// The revision that a request asks for, up to `present`.
pub(super) fn revision_asked(
    request: &RangeRequest,
    present: Revision,
) -> Result<Revision, Status> {
    let at = if request.revision > 0 { Revision(request.revision) } else { present };
    if at <= present { Ok(at) } else { Err(failure::compacted_or_future(ReadError::Future)) }
}

fn limit(request: &RangeRequest) -> usize {
    usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
}

/// The most keys that a request asks for, if it wants them as they are and in the order of the store.
pub(super) fn plain_limit(request: &RangeRequest) -> Option<usize> {
    let is_reduced = request.count_only || request.keys_only || selects_by_revision(request);
    (!is_reduced && Sorting::of(request).is_none()).then(|| limit(request))
}

/// Reads the keys of a range that a checked request asks for, at a revision up to `present`. The header is not filled in
/// yet.
pub(super) fn range(
    store: &Store,
    request: &RangeRequest,
    range: &KeyRange,
    present: Revision,
) -> Result<RangeResponse, Status> {
    let at = revision_asked(request, present)?;
    let limit = limit(request);
    let sorting = Sorting::of(request);
    let is_ordered = sorting.is_some() && request.sort_order() != SortOrder::None;
    let looks_at_all = selects_by_revision(request) || is_ordered;
    let needed = match request.count_only {
        true => 0,
        false if looks_at_all => usize::MAX,
        // As in etcd: without an order, what is sorted are the first keys and one more.
        false => limit.saturating_add(1),
    };
    // What is too long is not put together to find that out. Keys that may be left out afterwards do not count.
    let bytes_max = if looks_at_all { usize::MAX } else { limits::READ_BYTES_MAX };
    let (mut keys, mut bytes) = (Vec::new(), 0_usize);
    let visited = store.visit(range, Some(at), needed, |found| {
        if keys.len() < limit {
            bytes += if request.keys_only { found.key_len() } else { found.content_len() };
        }
        if bytes <= bytes_max {
            keys.push(found.to_owned());
        }
    });
    let count = visited.map_err(failure::compacted_or_future)?;
    if bytes > bytes_max {
        return Err(failure::too_much_read());
    }
    if selects_by_revision(request) {
        keys.retain(|found| is_selected(request, found));
    }
    if let Some(sorting) = sorting {
        sorting.sort(&mut keys);
    }
    let more = !request.count_only && keys.len() > limit;
    keys.truncate(limit);
    let kvs = keys.into_iter().map(|found| key_value(found, request.keys_only)).collect();
    Ok(RangeResponse { header: None, kvs, more, count: i64::try_from(count).unwrap_or(i64::MAX) })
}

fn key_value(mut found: KeyValue, without_value: bool) -> mvccpb::KeyValue {
    if without_value {
        found.value = Bytes::new();
    }
    found.into()
}

fn selects_by_revision(request: &RangeRequest) -> bool {
    let RangeRequest {
        min_mod_revision,
        max_mod_revision,
        min_create_revision,
        max_create_revision,
        ..
    } = request;
    [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision]
        .iter()
        .any(|bound| **bound != 0)
}

fn is_selected(request: &RangeRequest, found: &KeyValue) -> bool {
    let is_within = |least: i64, most: i64, at: Revision| {
        (least == 0 || at.0 >= least) && (most == 0 || at.0 <= most)
    };
    is_within(request.min_mod_revision, request.max_mod_revision, found.mod_revision)
        && is_within(
            request.min_create_revision,
            request.max_create_revision,
            found.create_revision,
        )
}

/// An order other than that of the store, which is ascending by key.
struct Sorting {
    target: SortTarget,
    descends: bool,
}

impl Sorting {
    /// An order that is asked for by its target alone is ascending.
    fn of(request: &RangeRequest) -> Option<Self> {
        let (target, descends) =
            (request.sort_target(), request.sort_order() == SortOrder::Descend);
        (target != SortTarget::Key || descends).then_some(Self { target, descends })
    }

    /// Keys that are equal in this order stay in that of the store.
    fn sort(&self, keys: &mut [KeyValue]) {
        keys.sort_by(|one, other| {
            let order = match self.target {
                SortTarget::Key => one.key.cmp(&other.key),
                SortTarget::Version => one.version.cmp(&other.version),
                SortTarget::Create => one.create_revision.cmp(&other.create_revision),
                SortTarget::Mod => one.mod_revision.cmp(&other.mod_revision),
                SortTarget::Value => one.value.cmp(&other.value),
            };
            if self.descends { order.reverse() } else { order }
        });
    }
}
