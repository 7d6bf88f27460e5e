//! The keys of a registry with their history and leases: a machine without I/O and without a clock.
//!
//! Every change has a revision, one higher than the change before; several keys may change at the same revision. Past
//! revisions can be read and watched until they are compacted. The store compacts by itself, because its history
//! is bounded.
//!
//! A watch is a position in the history, not a queue: whoever watches asks for the [changes](Store::changes) from
//! its next revision on. So a slow watcher costs nothing, and hears that its revisions were compacted in the end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::limits;

mod changes;
mod dump;
mod encoded;
mod found;
mod hash;
mod history;
mod journal;
mod leases;
mod logged;
mod op;
mod range;
mod restore;
#[cfg(test)]
mod tests;
mod transaction;
mod values;

pub use changes::Changes;
pub(crate) use dump::Dump;
use dump::Kept;
pub(crate) use encoded::put_element;
pub(crate) use found::{FoundChange, FoundKey};
pub(crate) use hash::KeysHash;
use history::{History, Live, Version};
use journal::Journal;
pub(crate) use leases::LeaseTimes;
use leases::Leases;
pub use leases::{Lease, LeaseError, LeaseId};
pub(crate) use op::Op;
pub use range::KeyRange;
pub use transaction::Transaction;
pub use values::{Change, Compacted, KeyValue, ReadError, Revision};

/// The keys that a read has found.
#[derive(Debug)]
pub struct Read {
    /// The first of the keys, as many as were asked for.
    pub keys: Vec<KeyValue>,
    /// The number of keys in the range, whatever was asked for.
    pub count: usize,
}

/// The keys, their history and the leases.
pub struct Store {
    revision: Revision,
    /// The first revision that can be read.
    compacted: Revision,
    /// The last compaction that had nothing to forget.
    compacted_nothing: Revision,
    keys: BTreeMap<Bytes, History>,
    /// The number of keys that exist now.
    live: usize,
    /// The bytes of these keys and their values.
    live_bytes: usize,
    /// The key and the size of each change since the compaction, in the order of their revisions.
    log: VecDeque<Logged>,
    log_bytes: usize,
    leases: Leases,
    /// What a log has to be told of; `None` if there is none.
    journal: Option<Journal>,
    /// The first revision that must not be forgotten, because a log has not got what comes after it.
    held: Option<Revision>,
    /// The dump that is taken, for which nothing is removed that was compacted.
    kept_for: Option<Kept>,
    /// Dumps that were begun.
    dumps: u64,
}

struct Logged {
    revision: Revision,
    key: Bytes,
    bytes: usize,
}

impl Store {
    /// An empty store.
    pub fn new() -> Self {
        Self::beginning_at(Revision::FIRST)
    }

    /// An empty store of this revision, before which there was something else: that counts as compacted.
    pub(crate) fn beginning_at(first: Revision) -> Self {
        Self {
            revision: first,
            compacted: first,
            compacted_nothing: Revision::BEFORE_ALL,
            keys: BTreeMap::new(),
            live: 0,
            live_bytes: 0,
            log: VecDeque::new(),
            log_bytes: 0,
            leases: Leases::default(),
            journal: None,
            held: None,
            kept_for: None,
            dumps: 0,
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The first revision that can be read.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The last compaction as etcd counts it: clients may compact at 0 and at the first revision, once each.
    pub fn last_compaction(&self) -> Revision {
        if self.compacted == Revision::FIRST { self.compacted_nothing } else { self.compacted }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.live
    }

    /// The bytes of all keys and their values.
    pub fn bytes(&self) -> usize {
        self.live_bytes
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The key as it is now.
    pub fn get(&self, key: &[u8]) -> Option<KeyValue> {
        let (key, history) = self.keys.get_key_value(key)?;
        history.at(key, self.revision)
    }

    /// Reads the first `limit` keys of a range, in their order, and counts all of them.
    ///
    /// # Errors
    /// Fails if `at` is compacted, or higher than the [revision](Self::revision). `None` reads the present.
    pub fn read(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<Read, ReadError> {
        let mut keys = Vec::new();
        let count = self.visit(range, at, limit, |found| keys.push(found.to_owned()))?;
        Ok(Read { keys, count })
    }

    /// Shows the first `limit` keys of a range, in their order, where they are. Returns the number of all.
    ///
    /// # Errors
    /// Fails as [`read`](Self::read) does.
    pub(crate) fn visit(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
        limit: usize,
        mut visit: impl FnMut(FoundKey<'_>),
    ) -> Result<usize, ReadError> {
        let at = self.readable(at)?;
        let mut count = 0;
        if let Some(bounds) = range.bounds() {
            for (key, history) in self.keys.range::<[u8], _>(bounds) {
                let Some(found) = FoundKey::of(key, history, at) else { continue };
                if count < limit {
                    visit(found);
                }
                count += 1;
            }
        }
        Ok(count)
    }

    /// The keys that there are among the first `most` that are known.
    pub(crate) fn first_keys(&self, most: usize) -> impl Iterator<Item = KeyValue> + '_ {
        let known = self.keys.iter().take(most);
        known.filter_map(|(key, history)| history.at(key, self.revision))
    }

    fn readable(&self, at: Option<Revision>) -> Result<Revision, ReadError> {
        match at {
            None => Ok(self.revision),
            Some(at) if at > self.revision => Err(ReadError::Future),
            Some(at) if at < self.compacted => Err(ReadError::Compacted),
            Some(at) => Ok(at),
        }
    }

    /// Makes changes of one revision, the next. Returns what `make` returns, and the store's revision, which is the
    /// former one if `make` has changed nothing.
    pub fn change<T>(&mut self, make: impl FnOnce(&mut Transaction<'_>) -> T) -> (T, Revision) {
        let former = self.revision;
        self.revision = former.next();
        let made = make(&mut Transaction { former, store: self });
        match self.has_change_now() {
            true => self.bound_history(),
            false => self.revision = former,
        }
        (made, self.revision)
    }

    /// Whether a key has changed at this revision.
    fn has_change_now(&self) -> bool {
        self.log.back().is_some_and(|last| last.revision == self.revision)
    }

    /// Forgets what was before a revision, which becomes the first that can be read.
    ///
    /// # Errors
    /// Fails if the revision is not higher than that of the [last compaction](Self::last_compaction), or if it has not
    /// come yet.
    pub fn compact(&mut self, first: Revision) -> Result<(), ReadError> {
        if first <= Revision::FIRST && first > self.last_compaction() {
            self.compacted_nothing = first;
            return Ok(());
        }
        self.forget(first)?;
        if let Some(journal) = &mut self.journal {
            journal.tell(&Op::Compact(first));
        }
        Ok(())
    }

    fn forget(&mut self, first: Revision) -> Result<(), ReadError> {
        if first > self.held.unwrap_or(self.revision) {
            return Err(ReadError::Future);
        }
        if first <= self.compacted {
            return Err(ReadError::Compacted);
        }
        self.compacted = first;
        self.remove_compacted();
        Ok(())
    }

    /// Removes some of what cannot be read any more, unless a dump needs it. True if nothing is left to be removed now.
    pub(crate) fn remove_compacted(&mut self) -> bool {
        if self.kept_for.is_some() {
            return true;
        }
        let first = self.compacted;
        for _ in 0..limits::REMOVED_AT_ONCE {
            if self.log.front().is_none_or(|oldest| oldest.revision >= first) {
                return true;
            }
            let Some(Logged { key, bytes, .. }) = self.log.pop_front() else { return true };
            self.log_bytes -= bytes;
            if self.keys.get_mut(&key).is_some_and(|history| history.compact(first)) {
                self.keys.remove(&key);
            }
        }
        false
    }

    /// Whether the history keeps its bounds, which it may exceed while a dump is taken and some time after that.
    pub(crate) fn has_bounded_history(&self) -> bool {
        self.log.len() <= limits::HISTORY_CHANGES_MAX && self.log_bytes <= limits::HISTORY_BYTES_MAX
    }

    /// Compacts so far that the history keeps its bounds. One revision stays, however large it is.
    fn bound_history(&mut self) {
        if self.kept_for.is_some() || !self.remove_compacted() {
            return;
        }
        for _ in 0..limits::REVISIONS_FORGOTTEN_AT_ONCE {
            if self.has_bounded_history() {
                return;
            }
            let Some(oldest) = self.log.front().map(|oldest| oldest.revision) else {
                return;
            };
            let behind = self.log.partition_point(|logged| logged.revision == oldest);
            let Some(next) = self.log.get(behind).map(|logged| logged.revision) else {
                return;
            };
            if self.forget(next).is_err() {
                return;
            }
        }
    }

    /// Grants a lease. Each renewal holds for `ttl` from then on.
    ///
    /// # Errors
    /// Fails if the id is in use.
    pub fn grant(&mut self, id: LeaseId, ttl: Duration, now: Duration) -> Result<(), LeaseError> {
        self.leases.grant(id, ttl, now)?;
        if let Some(journal) = &mut self.journal {
            journal.tell_lease(&Op::Grant { id, ttl }, id, None);
        }
        Ok(())
    }

    /// Renews a lease, and returns the time for which that holds.
    ///
    /// # Errors
    /// Fails if there is no such lease.
    pub fn renew(&mut self, id: LeaseId, now: Duration) -> Result<Duration, LeaseError> {
        self.leases.renew(id, now)
    }

    /// Ends a lease and deletes its keys, at one revision.
    ///
    /// # Errors
    /// Fails if there is no such lease.
    pub fn revoke(&mut self, id: LeaseId) -> Result<(), LeaseError> {
        let former = self.leases.times_of(id);
        let keys = self.leases.remove(id)?;
        if let Some(journal) = &mut self.journal {
            journal.tell_lease(&Op::End { id }, id, former);
        }
        self.change(|change| keys.into_iter().for_each(|key| change.delete_key(key)));
        Ok(())
    }

    /// The lease with this id.
    ///
    /// # Errors
    /// Fails if there is no such lease.
    pub fn lease(&self, id: LeaseId) -> Result<Lease, LeaseError> {
        let LeaseTimes { ttl, expires } = self.leases.times_of(id).ok_or(LeaseError::NotFound)?;
        Ok(Lease { id, ttl, expires, keys: self.lease_keys(id).cloned().collect() })
    }

    /// The times of a lease.
    pub(crate) fn lease_times(&self, id: LeaseId) -> Option<LeaseTimes> {
        self.leases.times_of(id)
    }

    /// The keys of a lease, in their order; none if it is not there.
    pub(crate) fn lease_keys(&self, id: LeaseId) -> impl Iterator<Item = &Bytes> {
        self.leases.keys(id)
    }

    /// The number of keys of a lease; 0 if it is not there.
    pub(crate) fn lease_key_count(&self, id: LeaseId) -> usize {
        self.leases.key_count(id)
    }

    /// The number of leases.
    pub fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// The ids of all leases, the first to expire first.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.leases.ids()
    }

    /// The time at which the next lease expires, if there is one.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.leases.next().map(|(at, _)| at)
    }

    /// The next lease that has expired by `now`. The owner decides when to [revoke](Self::revoke) it.
    pub fn expired(&self, now: Duration) -> Option<LeaseId> {
        self.leases.next().filter(|(at, _)| *at <= now).map(|(_, id)| id)
    }

    /// Whether there is such a lease.
    pub fn has_lease(&self, id: LeaseId) -> bool {
        self.leases.contains(id)
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    fn bytes_of(&self, found: &KeyValue) -> usize {
        found.key.len() + found.value.len()
    }

    /// Adds what a key is from the present revision on, and logs that. `bytes` is the size of key and value.
    fn push(&mut self, key: Bytes, live: Option<Live>, bytes: usize) {
        self.tell(&key, live.as_ref());
        let version = Version { mod_revision: self.revision, live };
        let is_again = match self.keys.get_mut(&key) {
            Some(history) => history.push(version),
            None => {
                self.keys.insert(key.clone(), History::new(version));
                false
            }
        };
        if !is_again {
            self.note_change(key, bytes);
        }
    }

    /// Has a log told what a key is from the present revision on.
    fn tell(&mut self, key: &Bytes, live: Option<&Live>) {
        if let Some(journal) = &mut self.journal {
            journal.tell_change(self.revision, key, live);
        }
    }

    fn note_change(&mut self, key: Bytes, bytes: usize) {
        self.log_bytes += bytes;
        self.log.push_back(Logged { revision: self.revision, key, bytes });
    }
}
