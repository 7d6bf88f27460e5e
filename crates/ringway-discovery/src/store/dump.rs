//! A store as a snapshot, which is taken in pieces while the store goes on.
//!
//! Nothing is copied but the leases: keys have the history that the snapshot needs. So what is compacted meanwhile is
//! removed when the snapshot is made.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;

use super::history::{Live, Version};
use super::leases::LeaseId;
use super::op::Op;
use super::{Revision, Store};
use crate::limits;

/// Everything that a store had at one moment: keys, the history that could be read, leases.
pub(crate) struct Dump {
    id: DumpId,
    revision: Revision,
    compacted: Revision,
    now: Duration,
    leases: std::vec::IntoIter<(LeaseId, Duration, Duration)>,
    at: Place,
    /// Bytes of its pieces so far, and about those of all.
    made: usize,
    all: usize,
}

impl Dump {
    /// What part of it is made, in thousandths; about.
    pub(crate) fn progress(&self) -> usize {
        (self.made.saturating_mul(1_000) / self.all.max(1)).min(1_000)
    }
}

/// The dump that is taken.
pub(super) struct Kept {
    id: DumpId,
    /// The length of the history when it began.
    changes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DumpId(u64);

/// Bytes of a key in a dump beside its own.
const VERSION_BYTES: usize = 41;

/// What comes next in a dump.
enum Place {
    Begin,
    Leases,
    /// Keys behind this one, as they were before the first revision that can be read.
    Keys(Option<Bytes>),
    /// The changes from there on, by their place in the store's history.
    Changes(usize),
    End,
}

impl Store {
    /// Begins a dump of everything that there is now, after the end of the one before. The store keeps what it needs until
    /// [`Store::end_dump`]: its history grows by [so many changes](Self::changes_since_dump), which its owner bounds.
    pub(crate) fn dump(&mut self, now: Duration) -> Dump {
        self.end_dump();
        let id = DumpId(self.dumps);
        self.dumps += 1;
        self.kept_for = Some(Kept { id, changes: self.log.len() });
        let leases: Vec<_> = self.leases.times().collect();
        let (leases, at) = (leases.into_iter(), Place::Begin);
        let (revision, compacted) = (self.revision, self.compacted);
        let versions = self.live + self.log.len();
        let all = self.live_bytes + self.log_bytes + versions * VERSION_BYTES;
        Dump { id, revision, compacted, now, leases, at, made: 0, all }
    }

    /// The changes that the history has kept for the sake of a dump.
    pub(crate) fn changes_since_dump(&self) -> usize {
        self.kept_for.as_ref().map_or(0, |kept| self.log.len() - kept.changes)
    }

    /// Keeps nothing for a dump any more.
    pub(crate) fn end_dump(&mut self) {
        self.kept_for = None;
        self.remove_compacted();
    }

    /// The next operations of a dump, some more than so many bytes, and perhaps none; `None` after the last. It looks at
    /// [`limits::SNAPSHOT_SCANNED_MAX`] keys at most, so that the store is not held for long.
    ///
    /// # Panics
    /// If the dump has ended.
    pub(crate) fn next_piece(&self, dump: &mut Dump, bytes: usize) -> Option<Vec<u8>> {
        let is_kept = self.kept_for.as_ref().is_some_and(|kept| kept.id == dump.id);
        assert!(is_kept, "the store keeps what a dump needs until its end");
        let mut piece = Vec::new();
        let mut left = limits::SNAPSHOT_SCANNED_MAX;
        while piece.len() < bytes && left > 0 {
            match &dump.at {
                Place::Begin => {
                    let Dump { revision, compacted, .. } = *dump;
                    Op::State { revision, compacted }.encode(&mut piece);
                    dump.at = Place::Leases;
                }
                Place::Leases => match dump.leases.next() {
                    Some((id, ttl, expires)) => {
                        let left = expires.saturating_sub(dump.now);
                        Op::Lease { id, ttl, left }.encode(&mut piece);
                    }
                    None => dump.at = Place::Keys(None),
                },
                Place::Keys(behind) => {
                    let behind = behind.clone();
                    dump.at = self.dump_keys(dump.compacted, behind, bytes, &mut left, &mut piece);
                }
                Place::Changes(at) => match self.log.get(*at) {
                    Some(logged) if logged.revision <= dump.revision => {
                        let history = self.keys.get(&logged.key);
                        if let Some(it) = history.and_then(|it| it.became_at(logged.revision)) {
                            encode(&logged.key, it, &mut piece);
                        }
                        dump.at = Place::Changes(at + 1);
                    }
                    _ => {
                        Op::Complete.encode(&mut piece);
                        dump.at = Place::End;
                        break;
                    }
                },
                Place::End => return None,
            }
            left = left.saturating_sub(1);
        }
        dump.made += piece.len();
        Some(piece)
    }

    /// Encodes keys as they were before the history begins. Returns where to go on.
    fn dump_keys(
        &self,
        compacted: Revision,
        behind: Option<Bytes>,
        bytes: usize,
        left: &mut usize,
        piece: &mut Vec<u8>,
    ) -> Place {
        let begin = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (key, history) in self.keys.range::<[u8], _>((begin, Bound::Unbounded)) {
            if piece.len() >= bytes || *left == 0 {
                return Place::Keys(last.or(behind));
            }
            *left -= 1;
            if let Some(version) = history.before(compacted).filter(|it| it.live.is_some()) {
                encode(key, version, piece);
            }
            last = Some(key.clone());
        }
        let begin = self.log.partition_point(|logged| logged.revision < compacted);
        Place::Changes(begin)
    }
}

fn encode(key: &Bytes, Version { mod_revision, live }: &Version, piece: &mut Vec<u8>) {
    let (mod_revision, live) = (*mod_revision, live.as_ref());
    match live {
        Some(Live { create_revision, version, lease, value, .. }) => Op::Version {
            key,
            value,
            lease: *lease,
            create_revision: *create_revision,
            mod_revision,
            version: *version,
        }
        .encode(piece),
        None => Op::Gone { key, revision: mod_revision }.encode(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn put(store: &mut Store, key: u32, value: Bytes) {
        let key = Bytes::copy_from_slice(&key.to_be_bytes());
        store.change(|change| change.put(key, value, LeaseId::NONE)).0.expect("without a lease");
    }

    #[test]
    fn a_piece_looks_at_some_keys_and_not_at_all() {
        let mut store = Store::new();
        let all = 5 * limits::SNAPSHOT_SCANNED_MAX;
        (0..all as u32).for_each(|key| put(&mut store, key, Bytes::new()));
        // So half of the keys are told as keys and half as changes.
        store.compact(Revision(all as i64 / 2)).expect("it has come");
        let mut dump = store.dump(NOW);
        let mut pieces = 0;
        while store.next_piece(&mut dump, usize::MAX).is_some() {
            pieces += 1;
        }
        assert!(pieces > 5, "{pieces} pieces for {all} keys");
    }

    #[test]
    fn a_dump_has_what_there_was_however_much_changes_meanwhile() {
        let mut store = Store::new();
        let value = Bytes::from(vec![1; 1 << 20]);
        (0..8).for_each(|key| put(&mut store, key, value.clone()));
        let mut dump = store.dump(NOW);
        let (mut restored, mut last) = (Store::new(), 0);
        let (all, all_changes) = (8 * value.len(), 3 * limits::HISTORY_BYTES_MAX / value.len());
        while let Some(piece) = store.next_piece(&mut dump, 1) {
            restored.apply(&piece, NOW).expect("it follows");
            let progress = dump.progress();
            assert!(last <= progress && progress <= 1_000, "{progress} after {last}");
            last = progress;
            // Far more than the history has otherwise.
            while store.changes_since_dump() < all_changes * last / 1_000 {
                put(&mut store, 3, Bytes::from(vec![2; 1 << 20]));
            }
        }
        assert!(last > 400, "{last}: a key that was just put counts twice");
        assert_eq!((restored.len(), restored.bytes()), (8, all + 8 * 4));
        let read = restored.read(&crate::store::KeyRange::all(), None, 8).expect("the present");
        assert!(read.keys.iter().all(|found| found.value == value));
        store.end_dump();
        assert_eq!(store.changes_since_dump(), 0);
        put(&mut store, 0, Bytes::new());
        assert!(store.has_bounded_history(), "the history has its bounds again");
    }
}
