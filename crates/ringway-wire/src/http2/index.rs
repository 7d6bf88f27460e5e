//! The index from stream ids to slots.

/// Maps stream ids to slots without hashing. Open ids are mostly neighbours, since ids only grow,
/// so the low bits of an id select its bucket. Ids whose bucket is taken are in a sorted list: a peer
/// that chooses ids with equal low bits makes a look-up eleven comparisons longer at most, and not a thousand.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Ids and slots; id 0 marks a free bucket. The length is a power of two, at least twice the
    /// number of ids.
    buckets: Box<[(u32, u32)]>,
    /// The other ids and their slots, in the order of the ids. A new id is the highest nearly always,
    /// so it goes to the end.
    others: Vec<(u32, u32)>,
    len: usize,
}

/// Number of buckets of the first table.
const BUCKETS_MIN: usize = 4;

impl Index {
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        match self.buckets.get(self.bucket(id)) {
            Some(&(found, slot)) if found == id => Some(slot),
            _ if self.others.is_empty() => None,
            _ => self.place(id, |_| {}).ok().map(|at| self.others[at].1),
        }
    }

    /// The place of an id among the others, or the one where it belongs. `visit` is told each id that
    /// it is compared with.
    fn place(&self, id: u32, mut visit: impl FnMut(u32)) -> Result<usize, usize> {
        self.others.binary_search_by(|&(other, _)| {
            visit(other);
            other.cmp(&id)
        })
    }

    /// Adds an id, which must not be present.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, slot: u32) {
        if self.len * 2 >= self.buckets.len() {
            self.grow();
        }
        self.len += 1;
        self.put(id, slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let bucket = self.bucket(id);
        match self.buckets.get_mut(bucket) {
            Some(found) if found.0 == id => {
                *found = (0, 0);
                self.len -= 1;
            }
            _ => self.remove_other(id),
        }
    }

    #[cold]
    fn remove_other(&mut self, id: u32) {
        if let Ok(at) = self.place(id, |_| {}) {
            self.others.remove(at);
            self.len -= 1;
        }
    }

    /// The bucket of an id. The ids of one side are all odd or all even.
    #[inline]
    fn bucket(&self, id: u32) -> usize {
        (id >> 1) as usize & self.buckets.len().wrapping_sub(1)
    }

    #[inline]
    fn put(&mut self, id: u32, slot: u32) {
        let bucket = self.bucket(id);
        match self.buckets[bucket].0 {
            0 => self.buckets[bucket] = (id, slot),
            _ => self.put_other(id, slot),
        }
    }

    #[cold]
    fn put_other(&mut self, id: u32, slot: u32) {
        if let Err(at) = self.place(id, |_| {}) {
            self.others.insert(at, (id, slot));
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.buckets.len() * 2).max(BUCKETS_MIN);
        let buckets = std::mem::replace(&mut self.buckets, vec![(0, 0); len].into());
        let others = std::mem::take(&mut self.others);
        let all = buckets.iter().copied().chain(others).filter(|bucket| bucket.0 != 0);
        all.for_each(|(id, slot)| self.put(id, slot));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Index;

    #[test]
    fn ids_are_found_from_insertion_to_removal() {
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
        assert!(index.buckets.len() <= 256 && !index.others.is_empty());
    }

    #[test]
    fn a_look_up_is_short_whichever_ids_a_peer_chooses() {
        const STREAMS: u32 = 1_000;
        let mut index = Index::default();
        let id = |number: u32| number * 8_192 + 1; // all in one bucket
        (0..STREAMS).for_each(|number| index.insert(id(number), number));
        for number in 0..STREAMS {
            let mut visited = 0;
            let place = index.place(id(number), |_| visited += 1);
            assert!(visited <= 11, "{visited} of {STREAMS}");
            assert_eq!((index.find(id(number)), place.is_ok()), (Some(number), number > 0));
        }
        assert_eq!(index.others.len(), STREAMS as usize - 1);
        (0..STREAMS).for_each(|number| index.remove(id(number)));
        assert_eq!((index.len, index.find(id(7))), (0, None));
    }
}
