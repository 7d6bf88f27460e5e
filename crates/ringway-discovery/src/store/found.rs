//! A key that was found, where it is in the store.

use bytes::Bytes;

use super::history::{History, Live, Version};
use super::values::{Change, KeyValue, Revision};

/// A key that existed at the revision that was read.
#[derive(Clone, Copy)]
pub(crate) struct FoundKey<'a> {
    key: &'a Bytes,
    mod_revision: Revision,
    live: &'a Live,
}

impl<'a> FoundKey<'a> {
    /// `None` if the key did not exist at the revision.
    #[inline]
    pub(super) fn of(key: &'a Bytes, history: &'a History, at: Revision) -> Option<Self> {
        Self::of_version(key, history.version_at(at)?)
    }

    /// `None` if the key was deleted then.
    #[inline]
    fn of_version(key: &'a Bytes, version: &'a Version) -> Option<Self> {
        let live = version.live.as_ref()?;
        Some(Self { key, mod_revision: version.mod_revision, live })
    }

    /// The key as a message of etcd's API.
    #[inline]
    pub(crate) fn encoded(self) -> &'a [u8] {
        &self.live.encoded
    }

    /// Bytes of the key and its value.
    pub(crate) fn content_len(self) -> usize {
        self.key.len() + self.live.value.len()
    }

    /// Bytes of the key.
    pub(crate) fn key_len(self) -> usize {
        self.key.len()
    }

    /// The revision of its last put.
    pub(crate) fn mod_revision(self) -> Revision {
        self.mod_revision
    }

    /// The revision at which it was created.
    pub(crate) fn create_revision(self) -> Revision {
        self.live.create_revision
    }

    /// The key with all that is known of it.
    pub(crate) fn to_owned(self) -> KeyValue {
        let Live { create_revision, version, lease, value, .. } = self.live;
        KeyValue {
            key: self.key.clone(),
            create_revision: *create_revision,
            mod_revision: self.mod_revision,
            version: *version,
            lease: *lease,
            value: value.clone(),
        }
    }
}

/// A change of a key, where it is in the store.
#[derive(Clone, Copy)]
pub(crate) struct FoundChange<'a> {
    pub(crate) revision: Revision,
    pub(crate) key: &'a Bytes,
    /// The key after the change; `None` if it was deleted.
    pub(crate) now: Option<FoundKey<'a>>,
    /// The key before the change; `None` if it did not exist, or if its revision was compacted.
    pub(crate) before: Option<FoundKey<'a>>,
}

impl<'a> FoundChange<'a> {
    /// `None` if the key has not changed at the revision.
    pub(super) fn of(key: &'a Bytes, history: &'a History, revision: Revision) -> Option<Self> {
        let (now, before) = history.change(revision)?;
        let now = FoundKey::of_version(key, now);
        let before = before.and_then(|before| FoundKey::of_version(key, before));
        Some(Self { revision, key, now, before })
    }

    /// The change with all that is known of it.
    pub(super) fn to_owned(self) -> Change {
        let Self { revision, key, now, before } = self;
        let [now, before] = [now, before].map(|it| it.map(FoundKey::to_owned));
        Change { revision, key: key.clone(), now, before }
    }
}
