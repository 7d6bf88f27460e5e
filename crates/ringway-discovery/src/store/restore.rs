//! A store from its log or a snapshot.

use std::time::Duration;

use bytes::Bytes;

use super::encoded::Numbers;
use super::history::{History, Live, Version};
use super::op::Op;
use super::{Logged, Revision, Store};

/// An operation does not fit the store that it is applied to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfit;

impl Store {
    /// Applies operations of a log or snapshot. Returns whether the last of them ends a snapshot.
    ///
    /// # Errors
    /// Fails at the first operation that does not follow from those before it. Some may be applied then.
    pub(crate) fn apply(&mut self, ops: &[u8], now: Duration) -> Result<bool, Unfit> {
        let mut rest = ops;
        let mut is_complete = false;
        while !rest.is_empty() {
            let op = Op::decode(&mut rest).ok_or(Unfit)?;
            is_complete = op == Op::Complete;
            match op {
                Op::Revision(revision) => self.apply_changes(revision, &mut rest)?,
                Op::Put { .. } | Op::Delete { .. } => return Err(Unfit),
                Op::Grant { id, ttl } => self.grant(id, ttl, now).map_err(|_| Unfit)?,
                // After a start every lease has its whole time.
                Op::Renew { .. } => {}
                Op::End { id } => _ = self.leases.remove(id).map_err(|_| Unfit)?,
                // The bounds may have compacted more already.
                Op::Compact(revision) => _ = self.compact(revision),
                Op::State { revision, compacted } => self.begin(revision, compacted)?,
                Op::Lease { id, ttl, left } => {
                    self.leases.restore(id, ttl, now.saturating_add(left));
                }
                Op::Version { key, value, lease, create_revision, mod_revision, version } => {
                    let numbers = Numbers { create_revision, mod_revision, version, lease };
                    let live = Live::new(key, &numbers, value);
                    self.restore_version(key, mod_revision, Some(live))?;
                }
                Op::Gone { key, revision } => self.restore_version(key, revision, None)?,
                Op::Complete => {}
            }
        }
        Ok(is_complete)
    }

    fn begin(&mut self, revision: Revision, compacted: Revision) -> Result<(), Unfit> {
        let is_empty = self.keys.is_empty() && self.revision == Revision::FIRST;
        let is_possible = Revision::FIRST <= compacted && compacted <= revision;
        if !is_empty || !is_possible {
            return Err(Unfit);
        }
        (self.revision, self.compacted) = (revision, compacted);
        Ok(())
    }

    /// Applies the puts and deletions of one revision.
    fn apply_changes(&mut self, revision: Revision, rest: &mut &[u8]) -> Result<(), Unfit> {
        if revision != self.revision.next() {
            return Err(Unfit);
        }
        let ((), reached) = self.change(|change| {
            loop {
                let mut ahead = *rest;
                match Op::decode(&mut ahead) {
                    Some(Op::Put { key, value, lease }) => {
                        let [key, value] = [key, value].map(Bytes::copy_from_slice);
                        change.put_checked(key, value, lease);
                    }
                    Some(Op::Delete { key }) => change.delete_key(Bytes::copy_from_slice(key)),
                    _ => return,
                }
                *rest = ahead;
            }
        });
        if reached == revision { Ok(()) } else { Err(Unfit) }
    }

    fn restore_version(
        &mut self,
        key: &[u8],
        mod_revision: Revision,
        live: Option<Live>,
    ) -> Result<(), Unfit> {
        let key = Bytes::copy_from_slice(key);
        let former = self.keys.get(&key).and_then(History::last).cloned();
        let is_late = former.as_ref().is_none_or(|former| former.mod_revision < mod_revision)
            && self.log.back().is_none_or(|last| last.revision <= mod_revision);
        if !is_late || mod_revision > self.revision {
            return Err(Unfit);
        }
        if let Some(former) = former.and_then(|former| former.live) {
            self.leases.detach(former.lease, &key);
            self.live -= 1;
            self.live_bytes -= key.len() + former.value.len();
        }
        let bytes = key.len() + live.as_ref().map_or(0, |live| live.value.len());
        if let Some(live) = &live {
            self.leases.attach(live.lease, &key);
            self.live += 1;
            self.live_bytes += bytes;
        }
        let version = Version { mod_revision, live };
        match self.keys.get_mut(&key) {
            Some(history) => _ = history.push(version),
            None => _ = self.keys.insert(key.clone(), History::new(version)),
        }
        if mod_revision >= self.compacted {
            self.log_bytes += bytes;
            self.log.push_back(Logged { revision: mod_revision, key, bytes });
        }
        Ok(())
    }

    /// Gives every lease this time at least, or its whole time if that is shorter: their holders could not renew them.
    pub(crate) fn prolong_leases(&mut self, least: Duration, now: Duration) {
        self.leases.prolong(least, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KeyRange, LeaseError, LeaseId};

    const SECOND: Duration = Duration::from_secs(1);

    /// Changes a store at random, leases and compactions included.
    fn change_at_random(store: &mut Store, rng: &mut fastrand::Rng, now: Duration) {
        let key = Bytes::from(vec![b'a' + rng.u8(..12)]);
        let lease = LeaseId(rng.i64(0..4));
        match rng.u8(..20) {
            0 => _ = store.grant(LeaseId(rng.i64(1..4)), SECOND * rng.u32(5..50), now),
            1 => _ = store.renew(lease, now),
            2 => _ = store.revoke(lease),
            3 => {
                let upto = store.revision().0;
                _ = store.compact(Revision(rng.i64(1..=upto)));
            }
            4..8 => _ = store.change(|change| change.delete(&KeyRange::Key(key))),
            8 => {
                _ = store.change(|change| {
                    for _ in 0..rng.u8(1..4) {
                        let key = Bytes::from(vec![b'a' + rng.u8(..12)]);
                        _ = change.put(key, "several".into(), LeaseId::NONE);
                    }
                    change.delete(&KeyRange::Between("x".into(), "z".into()));
                });
            }
            _ => {
                let value = Bytes::from(vec![0; rng.usize(..20)]);
                _ = store.change(|change| change.put(key, value, lease));
            }
        }
    }

    /// Everything that a log and a snapshot have of a store. That is not when its leases expire.
    fn seen(store: &Store) -> Vec<String> {
        let mut seen = vec![format!(
            "{:?}",
            (store.revision, store.compacted, store.live, store.live_bytes, store.log_bytes)
        )];
        for at in store.compacted.0..=store.revision.0 {
            seen.push(format!("{:?}", store.read(&KeyRange::all(), Some(Revision(at)), 99)));
        }
        let changes = store.changes(&KeyRange::all(), store.compacted).expect("not compacted");
        seen.push(format!("{changes:?}"));
        for id in 1..4 {
            let lease = store.lease(LeaseId(id)).map(|lease| (lease.ttl, lease.keys));
            seen.push(format!("{lease:?}"));
        }
        seen
    }

    #[test]
    fn a_store_is_the_same_from_its_log_and_from_its_snapshot() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut store = Store::new();
            store.keep_journal();
            let mut replayed = Store::new();
            for step in 0..60 {
                let now = SECOND * step;
                change_at_random(&mut store, &mut rng, now);
                store.logged(store.revision());
                let ops = store.take_journal();
                assert_eq!(replayed.apply(&ops, now), Ok(false), "seed {seed}");
            }
            let now = SECOND * 60;
            assert_eq!(seen(&replayed), seen(&store), "seed {seed}: the log");
            let without_before = |seen: Vec<String>| {
                // What a key was before the first revision is compacted, with or without a restart.
                seen.into_iter().filter(|line| !line.starts_with("Changes")).collect::<Vec<_>>()
            };
            let expected = without_before(seen(&store));
            let mut dump = store.dump(now);
            let (mut restored, mut is_complete) = (Store::new(), false);
            let mut later = Vec::new();
            while let Some(piece) = store.next_piece(&mut dump, 64) {
                assert!(!is_complete, "seed {seed}");
                is_complete = restored.apply(&piece, now).expect("it fits");
                // The store goes on meanwhile.
                for _ in 0..3 {
                    change_at_random(&mut store, &mut rng, now);
                    store.logged(store.revision());
                    later.extend(store.take_journal());
                }
            }
            assert!(is_complete, "seed {seed}");
            let found = without_before(seen(&restored));
            assert_eq!(found, expected, "seed {seed}: the snapshot");
            store.end_dump();
            assert_eq!(restored.apply(&later, now), Ok(false), "seed {seed}");
            assert_eq!(
                without_before(seen(&restored)),
                without_before(seen(&store)),
                "seed {seed}: what came while it was made"
            );
            // Both go on alike.
            for step in 60..80 {
                let mut other = rng.clone();
                change_at_random(&mut store, &mut rng, SECOND * step);
                change_at_random(&mut restored, &mut other, SECOND * step);
                store.logged(store.revision());
            }
            assert_eq!(
                without_before(seen(&restored)),
                without_before(seen(&store)),
                "seed {seed}: afterwards"
            );
        }
    }

    #[test]
    fn operations_that_do_not_fit_are_refused() {
        let encoded = |ops: &[Op<'_>]| {
            let mut bytes = Vec::new();
            ops.iter().for_each(|op| op.encode(&mut bytes));
            bytes
        };
        let put = Op::Put { key: b"k", value: b"v", lease: LeaseId::NONE };
        let unfit: &[&[Op<'_>]] = &[
            &[put],
            &[Op::Revision(Revision(3)), put],
            &[Op::Revision(Revision(2))],
            &[Op::Revision(Revision(2)), Op::Delete { key: b"k" }],
            &[Op::End { id: LeaseId(1) }],
            &[Op::State { revision: Revision(2), compacted: Revision(3) }],
            &[Op::Gone { key: b"k", revision: Revision(2) }],
        ];
        for ops in unfit {
            assert_eq!(Store::new().apply(&encoded(ops), SECOND), Err(Unfit), "{ops:?}");
        }
        assert_eq!(Store::new().apply(b"\xFF", SECOND), Err(Unfit));
    }

    #[test]
    fn a_restored_lease_has_some_time_at_least() {
        let mut store = Store::new();
        store.grant(LeaseId(1), SECOND * 60, SECOND).expect("the id is free");
        store.grant(LeaseId(2), SECOND * 3, SECOND).expect("the id is free");
        store.prolong_leases(SECOND * 5, SECOND * 59);
        let expires = |id| store.lease(LeaseId(id)).map(|lease| lease.expires);
        assert_eq!((expires(1), expires(2)), (Ok(SECOND * 64), Ok(SECOND * 62)));
        assert_eq!(store.next_expiry(), Some(SECOND * 62));
        assert_eq!(expires(3), Err(LeaseError::NotFound));
    }
}
