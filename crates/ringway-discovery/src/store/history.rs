//! The versions of one key.

use std::collections::VecDeque;

use bytes::Bytes;

use super::encoded::{self, Numbers};
use super::leases::LeaseId;
use super::values::{KeyValue, Revision};

/// What a key was from a revision on.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) mod_revision: Revision,
    /// `None` since the key was deleted.
    pub(super) live: Option<Live>,
}

/// A key that exists.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) create_revision: Revision,
    /// The number of puts since the key was created.
    pub(super) version: i64,
    pub(super) lease: LeaseId,
    /// A part of the encoded message.
    pub(super) value: Bytes,
    /// The key as a message of the API.
    pub(super) encoded: Bytes,
}

impl Live {
    /// A key that exists. Its value is copied.
    pub(super) fn new(key: &[u8], numbers: &Numbers, value: &[u8]) -> Self {
        let (encoded, place) = encoded::encode(key, numbers, value);
        let Numbers { create_revision, version, lease, .. } = *numbers;
        Self { create_revision, version, lease, value: encoded.slice(place), encoded }
    }
}

/// The versions of a key since the last compaction, oldest first, and the one that was valid at it. Never empty.
///
/// A full history forgets one version with each change. So this is a queue: one key may have a hundred thousand versions.
#[derive(Debug)]
pub(super) struct History(VecDeque<Version>);

impl History {
    pub(super) fn new(first: Version) -> Self {
        Self(VecDeque::from([first]))
    }

    /// Adds a version. One of the same revision is replaced; returns whether there was one.
    pub(super) fn push(&mut self, version: Version) -> bool {
        debug_assert!(self.0.back().is_none_or(|last| last.mod_revision <= version.mod_revision));
        match self.0.back_mut().filter(|last| last.mod_revision == version.mod_revision) {
            Some(last) => {
                *last = version;
                true
            }
            None => {
                if self.0.len() < VERSIONS_FEW && self.0.len() == self.0.capacity() {
                    self.0.reserve_exact(1);
                }
                self.0.push_back(version);
                false
            }
        }
    }

    /// The key as it was at `revision`.
    pub(super) fn at(&self, key: &Bytes, revision: Revision) -> Option<KeyValue> {
        self.version_at(revision).and_then(|version| version.of(key))
    }

    /// The version at `revision`.
    #[inline]
    pub(super) fn version_at(&self, revision: Revision) -> Option<&Version> {
        match self.0.back() {
            Some(last) if last.mod_revision <= revision => Some(last),
            _ => {
                let behind = self.0.partition_point(|version| version.mod_revision <= revision);
                self.0.get(behind.checked_sub(1)?)
            }
        }
    }

    /// What the key was before `revision`, if that is still the case then.
    pub(super) fn before(&self, revision: Revision) -> Option<&Version> {
        self.version_at(revision).filter(|version| version.mod_revision < revision)
    }

    /// What the key became at `revision`.
    pub(super) fn became_at(&self, revision: Revision) -> Option<&Version> {
        let at = self.0.binary_search_by_key(&revision, |version| version.mod_revision).ok()?;
        self.0.get(at)
    }

    /// The last version.
    pub(super) fn last(&self) -> Option<&Version> {
        self.0.back()
    }

    /// What the key became at `revision`, and what it was before that; `None` if that was no change of this key.
    pub(super) fn change(&self, revision: Revision) -> Option<(&Version, Option<&Version>)> {
        let at = self.0.binary_search_by_key(&revision, |version| version.mod_revision).ok()?;
        Some((&self.0[at], at.checked_sub(1).and_then(|before| self.0.get(before))))
    }

    /// Forgets the versions that were over before `revision`. Returns whether none is left.
    pub(super) fn compact(&mut self, revision: Revision) -> bool {
        let upto = self.0.partition_point(|version| version.mod_revision <= revision);
        let Some(valid) = upto.checked_sub(1) else {
            return false;
        };
        // A deletion at the revision itself can still be watched.
        let is_gone = self.0[valid].live.is_none() && self.0[valid].mod_revision < revision;
        let forgotten = if is_gone { upto } else { valid };
        self.0.drain(..forgotten);
        if self.0.len() == 1 && self.0.capacity() > 4 {
            self.0.shrink_to_fit();
        }
        self.0.is_empty()
    }
}

/// Versions up to which a history has room for those that it has and no others. Most keys have one or two, and each has a
/// hundred bytes.
const VERSIONS_FEW: usize = 4;

impl Version {
    pub(super) fn of(&self, key: &Bytes) -> Option<KeyValue> {
        let live = self.live.as_ref()?;
        Some(KeyValue {
            key: key.clone(),
            create_revision: live.create_revision,
            mod_revision: self.mod_revision,
            version: live.version,
            lease: live.lease,
            value: live.value.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_put_and_deleted_has_room_for_that_and_no_more() {
        let version = |at| Version { mod_revision: Revision(at), live: None };
        let mut history = History::new(version(1));
        history.push(version(2));
        assert_eq!(history.0.capacity(), 2);
        (3..100).for_each(|at| _ = history.push(version(at)));
        assert!(history.0.capacity() >= 99);
    }
}
