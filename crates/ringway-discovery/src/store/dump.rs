//! A store as a snapshot, which is taken in pieces while the store goes on.
//!
//! Nothing is copied but the leases: keys have the history that the snapshot needs. So what is compacted meanwhile is
//! removed when the snapshot is made.

use std::fmt;
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
}

/// Tells whether the store still keeps what a dump needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DumpId(u64);

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

/// The history grew too far while a dump was taken, so that it cannot be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overtaken;

impl fmt::Display for Overtaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the keys change faster than the disk takes them")
    }
}

impl std::error::Error for Overtaken {}

impl Store {
    /// Begins a dump of everything that there is now. The store keeps what it needs until [`Store::end_dump`]. A dump
    /// that was begun before cannot be completed any more.
    pub(crate) fn dump(&mut self, now: Duration) -> Dump {
        self.end_dump();
        let id = DumpId(self.dumps);
        self.dumps += 1;
        self.kept_for = Some(id);
        let leases: Vec<_> = self.leases.times().collect();
        let (revision, compacted) = (self.revision, self.compacted);
        Dump { id, revision, compacted, now, leases: leases.into_iter(), at: Place::Begin }
    }

    /// Keeps nothing for a dump any more.
    pub(crate) fn end_dump(&mut self) {
        self.kept_for = None;
        self.remove_compacted();
    }

    /// The next operations of a dump, some more than so many bytes, and perhaps none; `None` after the last. It looks at
    /// [`limits::SNAPSHOT_SCANNED_MAX`] keys at most, so that the store is not held for long.
    ///
    /// # Errors
    /// Fails if the store has not kept what the dump needs.
    pub(crate) fn next_piece(
        &self,
        dump: &mut Dump,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>, Overtaken> {
        if self.kept_for != Some(dump.id) {
            return Err(Overtaken);
        }
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
                Place::End => return Ok(None),
            }
            left = left.saturating_sub(1);
        }
        Ok(Some(piece))
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
        while store.next_piece(&mut dump, usize::MAX).expect("it keeps all").is_some() {
            pieces += 1;
        }
        assert!(pieces > 5, "{pieces} pieces for {all} keys");
    }

    #[test]
    fn a_dump_that_takes_too_long_is_given_up() {
        let mut store = Store::new();
        put(&mut store, 0, Bytes::new());
        let mut dump = store.dump(NOW);
        let value = Bytes::from(vec![0; 1 << 20]);
        let bound = 2 * limits::HISTORY_BYTES_MAX / value.len();
        for key in 0..bound as u32 - 1 {
            put(&mut store, key, value.clone());
        }
        assert_eq!(store.compacted(), Revision::FIRST, "nothing is removed for its sake");
        assert!(store.next_piece(&mut dump, 1).is_ok());
        (0..2).for_each(|key| put(&mut store, key, value.clone()));
        assert_eq!(store.next_piece(&mut dump, 1), Err(Overtaken));
        assert!(store.log_bytes <= limits::HISTORY_BYTES_MAX, "the history has its bounds again");
        let mut second = store.dump(NOW);
        assert!(store.next_piece(&mut second, 1).is_ok());
    }
}
