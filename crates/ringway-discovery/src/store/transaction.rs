//! Changes of one revision.

use bytes::Bytes;

use super::encoded::Numbers;
use super::history::{Live, Version};
use super::{KeyRange, KeyValue, LeaseError, LeaseId, Read, Revision, Store};

/// Changes of one revision. If a key changes several times, the last change is the one that counts.
pub struct Transaction<'a> {
    /// The revision before the changes.
    pub(super) former: Revision,
    pub(super) store: &'a mut Store,
}

impl Transaction<'_> {
    /// The store with the changes so far.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// The revision of the changes, if there are any yet; otherwise that of the store before them.
    pub fn revision(&self) -> Revision {
        if self.store.has_change_now() { self.store.revision } else { self.former }
    }

    /// Puts a key, and copies its value. Returns the key before that.
    ///
    /// # Errors
    /// Fails if the lease does not exist; the key has not changed then.
    pub fn put(
        &mut self,
        key: Bytes,
        value: Bytes,
        lease: LeaseId,
    ) -> Result<Option<KeyValue>, LeaseError> {
        let is_there = lease == LeaseId::NONE || self.store.leases.contains(lease);
        if is_there { Ok(self.put_checked(key, value, lease)) } else { Err(LeaseError::NotFound) }
    }

    /// Puts a key whose lease exists.
    pub(super) fn put_checked(
        &mut self,
        key: Bytes,
        value: Bytes,
        lease: LeaseId,
    ) -> Option<KeyValue> {
        let store = &mut *self.store;
        let before = store.get(&key);
        let bytes = key.len() + value.len();
        let (create_revision, version, former_lease) = match &before {
            Some(before) => (before.create_revision, before.version + 1, before.lease),
            None => (store.revision, 1, LeaseId::NONE),
        };
        if former_lease != lease {
            store.leases.detach(former_lease, &key);
            store.leases.attach(lease, &key);
        }
        match &before {
            Some(before) => store.live_bytes -= store.bytes_of(before),
            None => store.live += 1,
        }
        store.live_bytes += bytes;
        let numbers = Numbers { create_revision, mod_revision: store.revision, version, lease };
        let live = Some(Live::new(&key, &numbers, &value));
        store.push(key, live, bytes);
        before
    }

    /// Deletes a key.
    pub(super) fn delete_key(&mut self, key: Bytes) {
        let store = &mut *self.store;
        let Some(history) = store.keys.get_mut(&key) else { return };
        let Some(gone) = history.last().and_then(|it| it.live.as_ref()) else { return };
        let (lease, bytes) = (gone.lease, key.len() + gone.value.len());
        let is_again = history.push(Version { mod_revision: store.revision, live: None });
        store.leases.detach(lease, &key);
        store.live -= 1;
        store.live_bytes -= bytes;
        store.tell(&key, None);
        if !is_again {
            let named = key.len();
            store.note_change(key, named);
        }
    }

    /// Deletes the keys of a range. Returns them.
    pub fn delete(&mut self, range: &KeyRange) -> Vec<KeyValue> {
        let Ok(Read { keys: deleted, .. }) = self.store.read(range, None, usize::MAX) else {
            return Vec::new();
        };
        deleted.iter().for_each(|gone| self.delete_key(gone.key.clone()));
        deleted
    }
}
