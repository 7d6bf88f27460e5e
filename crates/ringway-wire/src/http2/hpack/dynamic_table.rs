//! The dynamic table of a decoder (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD, TABLE_SIZE_DEFAULT};
use crate::http2::fields::field_size;
use crate::http2::meaning::{Meaning, NameClass, PackedMeaning};
use crate::rare_queue::RareQueue;

/// An entry of the table, without its text. It is as short as it can be, since idle connections keep
/// their tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    meaning: PackedMeaning,
    pub(super) class: NameClass,
    /// Position of its name among all bytes ever added to the table, modulo 2^32; its value
    /// follows.
    start: u32,
    /// Lengths, which are below the size of the table.
    name_len: u16,
    value_len: u16,
}

impl Entry {
    #[inline]
    pub(super) fn meaning(&self) -> Meaning {
        self.meaning.unpack()
    }

    /// The entry's size, as the table's limit counts it.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        field_size(self.name_len.into(), self.value_len.into()) as u32
    }
}

/// The dynamic table; the newest entry comes first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    entries: VecDeque<Entry>,
    /// What the block under way has evicted, the oldest first, if that is wanted: the block may have
    /// named it before.
    evicted: RareQueue<Entry>,
    evicted_use: EvictedUse,
    /// Texts of the entries in order, preceded by some of evicted entries.
    texts: Vec<u8>,
    /// Changes whenever the entries do; modulo 2^32, after which a peer that sent so many would fool itself.
    version: u32,
    /// Position of the first byte of `texts`.
    base: u32,
    size: u16,
    size_max: u16,
}

/// What happens to entries that a block evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictedUse {
    /// They are forgotten.
    None,
    /// They are kept until the next block.
    Kept,
    /// They would have been kept, and were too many.
    Lost,
}

impl DynamicTable {
    pub(super) fn new(size_max: u16) -> Self {
        Self {
            entries: VecDeque::new(),
            evicted: RareQueue::default(),
            evicted_use: EvictedUse::None,
            texts: Vec::new(),
            base: 0,
            size: 0,
            size_max,
            version: 0,
        }
    }

    /// Begins a block, and decides whether what it evicts is kept until the next one.
    #[inline]
    pub(super) fn begin_block(&mut self, keeps_evicted: bool) {
        if !self.evicted.is_empty() {
            self.evicted.retain(|_| false); // its memory is for the next block
        }
        self.evicted_use = if keeps_evicted { EvictedUse::Kept } else { EvictedUse::None };
    }

    /// An entry by its age, those among them that this block has evicted. `None` if it is not kept.
    pub(super) fn recent(&self, at: usize) -> Option<&Entry> {
        match at.checked_sub(self.entries.len()) {
            None => self.entries.get(at),
            Some(_) if self.evicted_use != EvictedUse::Kept => None,
            Some(back) => self.evicted.iter().rev().nth(back),
        }
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
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn size_max(&self) -> u16 {
        self.size_max
    }

    /// Changes the size limit of the table, and evicts entries beyond it.
    pub(super) fn resize(&mut self, size_max: u16) {
        self.size_max = size_max;
        self.version = self.version.wrapping_add(1);
        self.evict(0);
    }

    /// Adds an entry at the front. One that is larger than the table only empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], class: NameClass, meaning: Meaning) {
        let size = field_size(name.len(), value.len());
        self.version = self.version.wrapping_add(1);
        self.evict(size);
        let start = self.base.wrapping_add(self.texts.len() as u32);
        let meaning = meaning.pack();
        if size > self.size_max.into() {
            // It counts among the entries that were inserted, and nothing can name it.
            self.note_evicted(Entry { meaning, class, start, name_len: 0, value_len: 0 });
            return;
        }
        self.make_room(name.len() + value.len());
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u16, value.len() as u16);
        self.size += size as u16;
        self.entries.push_front(Entry { meaning, class, start, name_len, value_len });
    }

    /// Evicts the oldest entries until `size` more bytes fit.
    fn evict(&mut self, size: usize) {
        while usize::from(self.size) + size > self.size_max.into()
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size() as u16;
            self.note_evicted(oldest);
        }
    }

    #[inline]
    fn note_evicted(&mut self, entry: Entry) {
        match self.evicted_use {
            EvictedUse::Kept if self.evicted.len() < EVICTED_MAX => self.evicted.push_back(entry),
            EvictedUse::Kept => self.lose_evicted(),
            EvictedUse::None | EvictedUse::Lost => {}
        }
    }

    #[cold]
    fn lose_evicted(&mut self) {
        self.evicted.clear();
        self.evicted_use = EvictedUse::Lost;
    }

    /// Frees the memory that is kept for more entries.
    pub(super) fn shrink_to_fit(&mut self) {
        self.evicted.clear();
        self.drop_evicted();
        self.texts.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// Moves the texts to the front of their buffer once the unused bytes before them are as many
    /// as the table may hold, so that each byte is moved about once.
    fn make_room(&mut self, len: usize) {
        let (wanted, table) = (self.texts.len() + len, usize::from(self.size_max));
        if wanted <= 2 * table {
            return;
        }
        if !self.evicted.is_empty() {
            if wanted <= EVICTED_TABLES_MAX * table {
                return;
            }
            self.lose_evicted();
        }
        self.drop_evicted();
    }

    /// Drops the texts of evicted entries that are not kept.
    fn drop_evicted(&mut self) {
        let live = self
            .evicted
            .front()
            .or_else(|| self.entries.back())
            .map_or(self.texts.len(), |oldest| oldest.start.wrapping_sub(self.base) as usize);
        self.texts.drain(..live);
        self.base = self.base.wrapping_add(live as u32);
    }
}

/// Bytes of texts, as multiples of the table's size, above which what a block has evicted is not kept: it
/// has replaced the table three times.
const EVICTED_TABLES_MAX: usize = 4;

/// Entries that a block has evicted above which they are not kept: as many as that many tables of the default size
/// hold. A block may insert tens of thousands that are larger than a table which it has made small.
const EVICTED_MAX: usize = EVICTED_TABLES_MAX * TABLE_SIZE_DEFAULT as usize / ENTRY_OVERHEAD;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::Vocabulary;
    use crate::http2::hpack::fuzz::Keeper;
    use crate::limits::HTTP2_BLOCK_MAX;

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

    #[test]
    fn a_block_of_very_many_entries_leaves_little_behind() {
        let vocabulary = Vocabulary::new(Keeper);
        let (class, meaning) =
            (vocabulary.class(b"n"), vocabulary.meaning(vocabulary.class(b"n"), b""));
        for size_max in [0, 40] {
            let mut table = DynamicTable::new(4_096);
            table.begin_block(true);
            table.resize(size_max);
            (0..HTTP2_BLOCK_MAX / 2).for_each(|_| table.insert(b"n", b"", class, meaning));
            let kept = table.evicted.len() * size_of::<Entry>() + table.texts.capacity();
            assert!(kept < HTTP2_BLOCK_MAX, "{kept} bytes");
            assert!(table.recent(table.entries.len()).is_none(), "they are not all kept");
        }
    }
}
