//! Which slot a stream id has.

/// Ids to slots, by open addressing. Ids only grow, and those that are open at a time are mostly
/// neighbours, so their low bits spread them better than any hash. A peer that chooses ids which share
/// low bits makes a look-up as long as there are streams: a thousand comparisons.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Id and slot; id 0 is free. The length is a power of two, and at most half of it is used.
    places: Vec<(u32, u32)>,
    len: usize,
}

/// Places of the first table.
const PLACES_MIN: usize = 16;

impl Index {
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = Self::home(id) & mask;
        loop {
            match self.places.get(at) {
                Some(&(found, slot)) if found == id => return Some(slot),
                Some(&(0, _)) | None => return None,
                Some(_) => at = (at + 1) & mask,
            }
        }
    }

    /// Adds an id that is not there.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, slot: u32) {
        if self.len * 2 >= self.places.len() {
            self.grow();
        }
        self.len += 1;
        self.place(id, slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let mask = self.places.len().wrapping_sub(1);
        let mut hole = Self::home(id) & mask;
        loop {
            match self.places.get(hole) {
                Some(&(found, _)) if found == id => break,
                Some(&(0, _)) | None => return,
                Some(_) => hole = (hole + 1) & mask,
            }
        }
        self.len -= 1;
        let mut at = (hole + 1) & mask;
        while self.places[at].0 != 0 {
            // What probed past the hole moves into it.
            let home = Self::home(self.places[at].0) & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.places[hole] = (0, 0);
    }

    /// Ids of one side are all odd or all even.
    #[inline]
    fn home(id: u32) -> usize {
        (id >> 1) as usize
    }

    #[inline]
    fn place(&mut self, id: u32, slot: u32) {
        let mask = self.places.len() - 1;
        let mut at = Self::home(id) & mask;
        while self.places[at].0 != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = (id, slot);
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![(0, 0); len]);
        old.iter().filter(|place| place.0 != 0).for_each(|&(id, slot)| self.place(id, slot));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Index;

    #[test]
    fn what_was_inserted_and_not_removed_is_found() {
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        let mut state = 1_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = (state >> 16) % 300 * if step % 2 == 0 { 2 } else { 64 } + 1;
            if model.remove(&id).is_some() {
                index.remove(id);
            } else if model.len() < 100 {
                model.insert(id, step);
                index.insert(id, step);
            }
            index.remove(1_000_001);
            assert_eq!(index.find(id), model.get(&id).copied());
            if step % 64 == 0 {
                assert!(model.iter().all(|(&id, &slot)| index.find(id) == Some(slot)));
            }
        }
        assert!(index.places.len() <= 256 && !model.is_empty());
    }
}
