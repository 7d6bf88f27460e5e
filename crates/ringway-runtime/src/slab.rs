//! A slab with generational keys, so that a late answer cannot reach a new owner.

use crate::driver::Key;

/// Values by generational [`Key`]. The slot freed last is the first one reused.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.value = Some(value);
        Key::new(index, slot.generation)
    }

    #[inline]
    pub(crate) fn at(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation & Key::GENERATION_MASK != key.generation() {
            return None;
        }
        slot.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.at(key)?;
        let slot = &mut self.slots[key.index()];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index() as u32);
        slot.value.take()
    }

    /// The keys of all values.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.keys_of(|_| true)
    }

    /// The keys of the values for which `is_one` holds.
    pub(crate) fn keys_of(&self, is_one: impl Fn(&T) -> bool) -> Vec<Key> {
        let slots = self.slots.iter().enumerate();
        let found = slots.filter(|(_, slot)| slot.value.as_ref().is_some_and(&is_one));
        found.map(|(index, slot)| Key::new(index as u32, slot.generation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_resolves_to_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.index(), second.index());
        assert_eq!(slab.at(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.at(second), Some(&mut "second"));
        assert_eq!(slab.keys(), [second]);
    }
}
