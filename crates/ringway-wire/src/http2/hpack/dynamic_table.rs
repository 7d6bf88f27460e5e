//! The dynamic table of a decoder (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

use crate::http2::fields::field_size;
use crate::http2::meaning::{Meaning, NameClass};

/// An entry of the table, without its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) meaning: Meaning,
    pub(super) class: NameClass,
    /// The entry's size, as the table's limit counts it.
    pub(super) size: u32,
    /// Position of its name among all bytes ever added to the table, modulo 2^32; its value
    /// follows.
    start: u32,
    name_len: u32,
    value_len: u32,
}

/// The dynamic table; the newest entry comes first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    entries: VecDeque<Entry>,
    /// Texts of the entries in order, preceded by some of evicted entries.
    texts: Vec<u8>,
    /// Position of the first byte of `texts`.
    base: u32,
    size: usize,
    size_max: usize,
    /// Changes whenever the entries do.
    version: u64,
}

impl DynamicTable {
    pub(super) fn new(size_max: usize) -> Self {
        Self { entries: VecDeque::new(), texts: Vec::new(), base: 0, size: 0, size_max, version: 0 }
    }

    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// Name and value of an entry.
    pub(super) fn text(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let start = entry.start.wrapping_sub(self.base) as usize;
        let (name_len, value_len) = (entry.name_len as usize, entry.value_len as usize);
        self.texts[start..start + name_len + value_len].split_at(name_len)
    }

    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Changes the size limit of the table, and evicts entries beyond it.
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.version += 1;
        self.evict(0);
    }

    /// Adds an entry at the front. One that is larger than the table only empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], class: NameClass, meaning: Meaning) {
        let size = field_size(name.len(), value.len());
        self.version += 1;
        self.evict(size);
        if size > self.size_max {
            return;
        }
        self.make_room(name.len() + value.len());
        let start = self.base.wrapping_add(self.texts.len() as u32);
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.size += size;
        let size = size as u32;
        self.entries.push_front(Entry { meaning, class, size, start, name_len, value_len });
    }

    /// Evicts the oldest entries until `size` more bytes fit.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.size_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size as usize;
        }
    }

    /// Moves the texts to the front of their buffer once the unused bytes before them are as many
    /// as the table may hold, so that each byte is moved about once.
    fn make_room(&mut self, len: usize) {
        if self.texts.len() + len <= 2 * self.size_max {
            return;
        }
        let live = self
            .entries
            .back()
            .map_or(self.texts.len(), |oldest| oldest.start.wrapping_sub(self.base) as usize);
        self.texts.drain(..live);
        self.base = self.base.wrapping_add(live as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::Vocabulary;
    use crate::http2::hpack::fuzz::Keeper;

    #[test]
    fn texts_stay_intact_in_bounded_memory_while_entries_come_and_go() {
        let vocabulary = Vocabulary::new(Keeper);
        let class = vocabulary.class(b"name");
        let meaning = vocabulary.meaning(class, b"value");
        let mut table = DynamicTable::new(200);
        for number in 0..10_000_u32 {
            let name = number.to_string();
            let value = "v".repeat(number as usize % 60);
            table.insert(name.as_bytes(), value.as_bytes(), class, meaning);
            assert!(table.texts.capacity() <= 800 && table.size <= 200);
            let held = table.entries.len();
            assert!(held >= 1, "the newest fits");
            for back in 0..held {
                let entry = *table.entry(back).expect("held");
                let number = number - back as u32;
                let value = "v".repeat(number as usize % 60);
                let expected = (number.to_string().into_bytes(), value.into_bytes());
                let (name, value) = table.text(&entry);
                assert_eq!((name.to_vec(), value.to_vec()), expected);
            }
        }
        table.insert(b"large", &[0; 200], class, meaning);
        assert_eq!((table.entries.len(), table.size), (0, 0));
    }
}
