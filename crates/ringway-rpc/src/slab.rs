//! A table whose indices are used again, each time under another key.

/// The key of one entry of a slab. The key of a removed entry resolves to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SlabKey {
    index: u32,
    generation: u32,
}

impl SlabKey {
    /// The entry's index, for tables that lie beside the slab.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

/// A table with generational keys. It is as long as there ever were entries at once.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlabEntry<T> {
    /// The number of entries that this index has had and lost.
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> SlabKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(SlabEntry { generation: 0, value: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        debug_assert!(entry.value.is_none(), "the index is free");
        entry.value = Some(value);
        SlabKey { index, generation: entry.generation }
    }

    #[inline]
    pub(crate) fn get(&self, key: SlabKey) -> Option<&T> {
        let entry = self.entries.get(key.index())?;
        entry.value.as_ref().filter(|_| entry.generation == key.generation)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index())?;
        entry.value.as_mut().filter(|_| entry.generation == key.generation)
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: SlabKey) -> Option<T> {
        let entry = self.entries.get_mut(key.index())?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Removes an entry after `last` has taken from it what is still wanted. The rest is dropped in its place.
    #[inline]
    pub(crate) fn remove_after<R>(
        &mut self,
        key: SlabKey,
        last: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let entry = self.entries.get_mut(key.index())?;
        let value = entry.value.as_mut().filter(|_| entry.generation == key.generation)?;
        let taken = last(value);
        entry.value = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(taken)
    }

    /// Removes all entries. The slab keeps its memory and its generations.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let mut all = Vec::new();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(value) = entry.value.take() {
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(index as u32);
                all.push(value);
            }
        }
        all
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_removed_entry_resolves_to_nothing() {
        let mut slab = Slab::new();
        let [first, second] = ["first", "second"].map(|value| slab.insert(value));
        assert_eq!((slab.remove(first), slab.remove(first)), (Some("first"), None));
        let third = slab.insert("third");
        assert_eq!(third.index(), first.index(), "the index is used again");
        assert!(slab.get(first).is_none() && slab.get_mut(first).is_none());
        assert_eq!((slab.get(second), slab.get(third)), (Some(&"second"), Some(&"third")));
        assert_eq!(slab.len(), 2);
    }

    #[test]
    fn a_slab_that_was_emptied_knows_none_of_its_former_keys() {
        let mut slab = Slab::new();
        let former: Vec<_> = (0..3).map(|value| slab.insert(value)).collect();
        slab.remove(former[1]);
        assert_eq!(slab.take_all(), [0, 2]);
        assert_eq!(slab.len(), 0);
        let latter: Vec<_> = (3..6).map(|value| slab.insert(value)).collect();
        assert!(former.iter().all(|key| slab.get(*key).is_none()));
        slab.iter_mut().for_each(|value| *value += 1);
        let values: Vec<_> = latter.iter().filter_map(|key| slab.get(*key).copied()).collect();
        assert_eq!(values, [4, 5, 6]);
    }
}
