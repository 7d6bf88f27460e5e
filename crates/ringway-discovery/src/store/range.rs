//! Ranges of keys.

use std::ops::Bound;

use bytes::Bytes;

/// The keys that an operation reads, deletes or watches.
///
/// etcd's API writes a range as a key and a `range_end`, which [`KeyRange::from_wire`] understands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyRange {
    /// One key.
    Key(Bytes),
    /// Keys from the first, included, to the second, excluded.
    Between(Bytes, Bytes),
    /// This key and all that come after it.
    From(Bytes),
}

impl KeyRange {
    /// All keys.
    pub fn all() -> Self {
        Self::From(Bytes::new())
    }

    /// All keys that begin with `prefix`.
    ///
    /// ```
    /// use ringway_discovery::KeyRange;
    ///
    /// let range = KeyRange::prefix("market/");
    /// assert!(range.contains(b"market/10.0.0.1"));
    /// assert!(!range.contains(b"market0"));
    /// ```
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let first = prefix.into();
        match end_of_prefix(&first) {
            Some(end) => Self::Between(first, end),
            None => Self::From(first),
        }
    }

    /// The range of etcd's `key` and `range_end`: an empty end stands for one key, an end of one zero byte for all
    /// keys from the first, and a key of one zero byte for the first key that there can be.
    pub fn from_wire(key: Bytes, range_end: Bytes) -> Self {
        match (&*key, &*range_end) {
            (_, []) => Self::Key(key),
            ([0], [0]) => Self::all(),
            (_, [0]) => Self::From(key),
            _ => Self::Between(key, range_end),
        }
    }

    /// Whether the range has this key.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::Key(only) => only == key,
            Self::Between(first, end) => &**first <= key && key < &**end,
            Self::From(first) => &**first <= key,
        }
    }

    /// Whether no key can be in the range.
    pub(crate) fn is_empty(&self) -> bool {
        self.bounds().is_none()
    }

    /// Bytes of the keys that it names.
    pub(crate) fn named_bytes(&self) -> usize {
        match self {
            Self::Key(first) | Self::From(first) => first.len(),
            Self::Between(first, end) => first.len() + end.len(),
        }
    }

    /// The bounds of the range in a sorted map. `None` stands for an empty range, which maps do not accept.
    pub(super) fn bounds(&self) -> Option<MapBounds<'_>> {
        match self {
            Self::Key(key) => Some((Bound::Included(key), Bound::Included(key))),
            Self::Between(first, end) if first < end => {
                Some((Bound::Included(first), Bound::Excluded(end)))
            }
            Self::Between(..) => None,
            Self::From(first) => Some((Bound::Included(first), Bound::Unbounded)),
        }
    }
}

/// MapBounds as sorted maps take them.
type MapBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The first key behind all keys with the prefix; `None` if there is none.
fn end_of_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_exactly_the_keys_that_begin_with_it() {
        let prefixes: [&[u8]; 5] = [b"", b"a", b"a\xFF", b"\xFF", b"\xFF\xFF"];
        let keys: [&[u8]; 9] =
            [b"", b"a", b"a\0", b"a\xFF", b"a\xFFz", b"b", b"\xFE", b"\xFF", b"\xFF\xFF\xFF"];
        for prefix in prefixes {
            let range = KeyRange::prefix(prefix.to_vec());
            for key in keys {
                assert_eq!(range.contains(key), key.starts_with(prefix), "{key:?} of {prefix:?}");
            }
        }
    }

    #[test]
    fn ranges_of_the_wire() {
        let range =
            |key: &'static [u8], end: &'static [u8]| KeyRange::from_wire(key.into(), end.into());
        assert_eq!(range(b"a", b""), KeyRange::Key("a".into()));
        assert_eq!(range(b"a", b"b"), KeyRange::Between("a".into(), "b".into()));
        assert_eq!(range(b"a", b"\0"), KeyRange::From("a".into()));
        assert_eq!(range(b"\0", b"\0"), KeyRange::all());
        assert!(range(b"b", b"a").bounds().is_none());
        assert!(!range(b"b", b"a").contains(b"b"));
    }
}
