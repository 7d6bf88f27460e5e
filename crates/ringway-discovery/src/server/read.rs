//! Range: reading keys.

use std::cmp::Ordering;

use bytes::Bytes;
use ringway_rpc::Status;

use super::failure;
use crate::etcd::api::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::etcd::api::etcdserverpb::{RangeRequest, RangeResponse};
use crate::etcd::api::mvccpb;
use crate::limits;
use crate::store::{FoundKey, KeyRange, KeyValue, ReadError, Revision, Store};

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

/// Finds the keys of a range that a checked request asks for, at a revision up to `present`. Only this needs the store:
/// what is put in order, cut and dropped afterwards may be a million keys.
pub(super) fn find(
    store: &Store,
    request: &RangeRequest,
    range: &KeyRange,
    present: Revision,
) -> Result<FoundKeys, Status> {
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
        if bytes <= bytes_max && is_selected(request, found) {
            keys.push(found.to_owned());
        }
    });
    let count = visited.map_err(failure::compacted_or_future)?;
    if bytes > bytes_max {
        return Err(failure::too_much_read());
    }
    let RangeRequest { keys_only, count_only, .. } = *request;
    let more = !count_only && keys.len() > limit;
    Ok(FoundKeys { keys, count, more, limit, sorting, keys_only })
}

/// The most bytes that an answer can have in a transaction that changes keys before: whichever of those that there are
/// are left, and first in the order that is asked for. `put` are the lengths of the keys that it puts, and of their values.
pub(super) fn bytes_at_most(
    store: &Store,
    request: &RangeRequest,
    range: &KeyRange,
    put: impl Iterator<Item = (usize, usize)>,
) -> Result<usize, Status> {
    if request.count_only {
        return Ok(0);
    }
    let len = |key: usize, value: usize| if request.keys_only { key } else { key + value };
    let mut lens: Vec<usize> = put.map(|(key, value)| len(key, value)).collect();
    let visited = store.visit(range, None, usize::MAX, |found| {
        if is_selected(request, found) {
            lens.push(len(found.key_len(), found.content_len() - found.key_len()));
        }
    });
    visited.map_err(failure::compacted_or_future)?;
    let limit = limit(request);
    if limit < lens.len() {
        lens.select_nth_unstable_by(limit, |one, other| other.cmp(one));
        lens.truncate(limit);
    }
    Ok(lens.iter().sum())
}

/// The keys that a range has found, in the order of the store.
pub(super) struct FoundKeys {
    keys: Vec<KeyValue>,
    /// The number of keys in the range, whatever was asked for.
    count: usize,
    /// Whether there are more of those that were asked for than the limit.
    more: bool,
    limit: usize,
    sorting: Option<Sorting>,
    keys_only: bool,
}

impl FoundKeys {
    /// Bytes of the keys and values that are answered.
    pub(super) fn content_len(&mut self) -> usize {
        self.cut();
        let value_len = |found: &KeyValue| if self.keys_only { 0 } else { found.value.len() };
        self.keys.iter().map(|found| found.key.len() + value_len(found)).sum()
    }

    /// The answer. The header is not filled in yet.
    pub(super) fn into_response(mut self) -> RangeResponse {
        self.cut();
        let Self { mut keys, count, more, sorting, keys_only, .. } = self;
        if let Some(sorting) = sorting {
            keys.sort_unstable_by(|one, other| sorting.compare(one, other));
        }
        let kvs = keys.into_iter().map(|found| key_value(found, keys_only)).collect();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        RangeResponse { header: None, kvs, more, count }
    }

    /// Leaves only the keys that are answered, without putting all in order.
    fn cut(&mut self) {
        if let Some(sorting) = &self.sorting
            && self.limit < self.keys.len()
        {
            self.keys.select_nth_unstable_by(self.limit, |one, other| sorting.compare(one, other));
        }
        self.keys.truncate(self.limit);
    }
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

fn is_selected(request: &RangeRequest, found: FoundKey<'_>) -> bool {
    let is_within = |least: i64, most: i64, at: Revision| {
        (least == 0 || at.0 >= least) && (most == 0 || at.0 <= most)
    };
    is_within(request.min_mod_revision, request.max_mod_revision, found.mod_revision())
        && is_within(
            request.min_create_revision,
            request.max_create_revision,
            found.create_revision(),
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
    fn compare(&self, one: &KeyValue, other: &KeyValue) -> Ordering {
        let order = match self.target {
            SortTarget::Key => one.key.cmp(&other.key),
            SortTarget::Version => one.version.cmp(&other.version),
            SortTarget::Create => one.create_revision.cmp(&other.create_revision),
            SortTarget::Mod => one.mod_revision.cmp(&other.mod_revision),
            SortTarget::Value => one.value.cmp(&other.value),
        };
        let order = if self.descends { order.reverse() } else { order };
        order.then_with(|| one.key.cmp(&other.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LeaseId, Transaction};

    /// Keys of two versions and few values, so that many are equal in an order.
    fn random_store(rng: &mut fastrand::Rng) -> Store {
        let mut store = Store::new();
        for _ in 0..rng.usize(..60) {
            let key = vec![b'a' + rng.u8(..26)].into();
            let value = vec![b'0' + rng.u8(..3)].into();
            let put = |change: &mut Transaction<'_>| change.put(key, value, LeaseId::NONE);
            store.change(put).0.expect("without a lease");
        }
        store
    }

    /// What is asked for, by looking at everything in the plainest way.
    fn expected(store: &Store, request: &RangeRequest) -> (Vec<mvccpb::KeyValue>, bool) {
        let is_unordered = request.sort_order() == SortOrder::None;
        let mut keys = store.read(&KeyRange::all(), None, usize::MAX).expect("the present").keys;
        let limit = limit(request);
        let has_more = keys.len() > limit;
        if is_unordered && has_more {
            keys.truncate(limit + 1);
        }
        if let Some(Sorting { target, descends }) = Sorting::of(request) {
            let number = |it: &KeyValue| match target {
                SortTarget::Version => it.version,
                SortTarget::Create => it.create_revision.0,
                SortTarget::Mod => it.mod_revision.0,
                SortTarget::Key | SortTarget::Value => 0,
            };
            let text = |it: &KeyValue| match target {
                SortTarget::Key => it.key.clone(),
                SortTarget::Value => it.value.clone(),
                _ => Bytes::new(),
            };
            keys.sort_by(|one, other| {
                let order = (number(one), text(one)).cmp(&(number(other), text(other)));
                if descends { order.reverse() } else { order }
            });
        }
        keys.truncate(limit);
        (keys.into_iter().map(|found| key_value(found, request.keys_only)).collect(), has_more)
    }

    #[test]
    fn what_was_found_is_put_in_order_without_the_store() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let store = random_store(&mut rng);
            let request = RangeRequest {
                key: "\0".into(),
                range_end: "\0".into(),
                limit: rng.i64(0..12),
                sort_order: rng.i32(0..3),
                sort_target: rng.i32(0..5),
                keys_only: rng.bool(),
                ..RangeRequest::default()
            };
            let (expected, has_more) = expected(&store, &request);
            let found = find(&store, &request, &KeyRange::all(), store.revision());
            let mut found = found.expect("the present");
            drop(store);
            let bytes = expected.iter().map(|kv| kv.key.len() + kv.value.len()).sum::<usize>();
            assert_eq!(found.content_len(), bytes, "seed {seed}: {request:?}");
            let response = found.into_response();
            assert_eq!(response.more, has_more, "seed {seed}: {request:?}");
            assert_eq!(response.kvs, expected, "seed {seed}: {request:?}");
        }
    }
}
