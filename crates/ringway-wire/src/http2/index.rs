//! Which slot a stream id has.

/// Ids to slots. Ids only grow, and those that are open at a time are mostly neighbours, so the low
/// bits of an id are its place, without any hash. Ids that find their place taken are in a list: a few
/// when some streams live long. A peer that chooses ids which share low bits makes a look-up as long as
/// there are streams: a thousand comparisons.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Id and slot; id 0 is free. The length is a power of two, at least twice the ids that are there.
    places: Vec<(u32, u32)>,
    others: Vec<(u32, u32)>,
    len: usize,
}

/// Places of the first table.
const PLACES_MIN: usize = 16;

impl Index {
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        match self.places.get(self.place(id)) {
            Some(&(found, slot)) if found == id => Some(slot),
            _ => self.others.iter().find(|other| other.0 == id).map(|other| other.1),
        }
    }

    /// Adds an id that is not there.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, slot: u32) {
        if self.len * 2 >= self.places.len() {
            self.grow();
        }
        self.len += 1;
        self.put(id, slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let place = self.place(id);
        match self.places.get_mut(place) {
            Some(found) if found.0 == id => {
                *found = (0, 0);
                self.len -= 1;
            }
            _ => self.remove_other(id),
        }
    }

    #[cold]
    fn remove_other(&mut self, id: u32) {
        if let Some(at) = self.others.iter().position(|other| other.0 == id) {
            self.others.swap_remove(at);
            self.len -= 1;
        }
    }

    /// Ids of one side are all odd or all even.
    #[inline]
    fn place(&self, id: u32) -> usize {
        (id >> 1) as usize & self.places.len().wrapping_sub(1)
    }

    #[inline]
    fn put(&mut self, id: u32, slot: u32) {
        let place = self.place(id);
        match self.places[place].0 {
            0 => self.places[place] = (id, slot),
            _ => self.others.push((id, slot)),
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.places.len() * 2).max(PLACES_MIN);
        let places = std::mem::replace(&mut self.places, vec![(0, 0); len]);
        let others = std::mem::take(&mut self.others);
        let all = places.into_iter().chain(others).filter(|place| place.0 != 0);
        all.for_each(|(id, slot)| self.put(id, slot));
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
        assert_eq!(index.len, model.len());
        assert!(index.places.len() <= 256 && !index.others.is_empty());
    }
}
