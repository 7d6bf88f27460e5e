//! A hash of all keys at one revision, by which two copies of a registry are compared.

use std::ops::Bound;

use bytes::Bytes;
use crc32fast::Hasher;

use super::{FoundKey, ReadError, Revision, Store};
use crate::limits;

/// The hash of the keys that were looked at so far.
pub(crate) struct KeysHash {
    at: Revision,
    compacted: Revision,
    /// The last key.
    last: Option<Bytes>,
    hasher: Hasher,
}

impl KeysHash {
    /// Of a store at this revision, which was compacted at `compacted`.
    pub(crate) fn new(at: Revision, compacted: Revision) -> Self {
        Self { at, compacted, last: None, hasher: Hasher::new() }
    }

    pub(crate) fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(crate) fn finish(self) -> u32 {
        self.hasher.finalize()
    }
}

impl Store {
    /// Looks at the next keys, so many that the store is not held for long. Returns whether those were the last.
    ///
    /// # Errors
    /// Fails if the revision is compacted.
    pub(crate) fn hash_some(&self, hash: &mut KeysHash) -> Result<bool, ReadError> {
        let at = self.readable(Some(hash.at))?;
        let begin = match &hash.last {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let (mut keys, mut bytes) = (0, 0);
        for (key, history) in self.keys.range::<Bytes, _>((begin, Bound::Unbounded)) {
            if keys == limits::HASHED_KEYS_AT_ONCE || bytes >= limits::HASHED_BYTES_AT_ONCE {
                return Ok(false);
            }
            if let Some(found) = FoundKey::of(key, history, at) {
                hash.hasher.update(found.encoded());
                bytes += found.encoded().len();
            }
            keys += 1;
            hash.last = Some(key.clone());
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KeyRange, LeaseId};

    fn hash(store: &Store, at: Revision) -> Result<u32, ReadError> {
        let mut hash = KeysHash::new(at, store.last_compaction());
        while !store.hash_some(&mut hash)? {}
        Ok(hash.finish())
    }

    #[test]
    fn a_hash_is_that_of_the_keys_at_its_revision() {
        let [mut one, mut other] = [(); 2].map(|()| Store::new());
        for number in 0..3 * limits::HASHED_KEYS_AT_ONCE {
            for store in [&mut one, &mut other] {
                store.change(|change| {
                    let (key, value) = (number.to_string().into(), Bytes::from_static(b"v"));
                    change.put(key, value, LeaseId::NONE).expect("without a lease")
                });
            }
        }
        let at = one.revision();
        let before = hash(&one, at).expect("it can be read");
        assert_eq!(hash(&other, at), Ok(before));
        one.change(|change| change.delete(&KeyRange::Key("7".into())));
        assert_ne!(hash(&one, one.revision()), Ok(before));
        assert_eq!(hash(&one, at), Ok(before), "as it was then");
        one.compact(one.revision()).expect("it has come");
        assert_eq!(hash(&one, at), Err(ReadError::Compacted));
        assert_eq!(hash(&other, at.next()), Err(ReadError::Future));
    }
}
