//! Decodes field blocks (RFC 7541, section 6).

use super::dynamic_table::DynamicTable;
use super::runs::{IndexRun, RUN_MIN, Runs};
use super::{STATIC_LEN, STATIC_TABLE, TABLE_SIZE_DEFAULT, huffman, integer};
use crate::http2::fields::{Fields, field_size};
use crate::http2::{Violation, Vocabulary};
use crate::limits::HTTP2_PARTIAL_KEPT;

/// The decoder of a connection's received field blocks.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: DynamicTable,
    /// Largest table size that the peer may choose.
    limit: u16,
    scratch: Option<Box<Scratch>>,
    runs: Runs,
    /// Whether the texts of a block may be [read](Self::read_texts) after it was decoded without them.
    reads_again: bool,
}

/// Memory for strings that are decoded or copied before they are used.
#[derive(Debug, Default)]
struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        let limit = TABLE_SIZE_DEFAULT as u16;
        let (scratch, runs) = Default::default();
        Self { table: DynamicTable::new(limit), limit, scratch, runs, reads_again: false }
    }
}

impl Decoder {
    /// Changes the largest table size, once the peer has acknowledged the setting; 64 KiB at most.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = u16::try_from(limit).unwrap_or(u16::MAX);
    }

    /// Lets the texts of each block be read after it was decoded without them.
    pub(in crate::http2) fn read_again(&mut self) {
        self.reads_again = true;
    }

    /// Frees the memory that is only there to be used again.
    pub(in crate::http2) fn drop_spare(&mut self) {
        (self.scratch, self.runs) = Default::default();
        self.table.shrink_to_fit();
    }

    /// Decodes a whole field block. The meaning of a field comes from the table or from
    /// `vocabulary`. Fields beyond the size limit of `fields` are dropped, but the table is
    /// updated.
    ///
    /// # Errors
    ///
    /// Fails when the block is malformed, after which no block of this connection can be decoded. A
    /// field that is forbidden in a message is a fault of that message only.
    pub fn decode(
        &mut self,
        block: &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        fields.clear();
        let mut rest = block;
        let is_whole = fields.keeps_texts();
        self.table.begin_block(self.reads_again && !is_whole);
        self.take_size_updates(&mut rest)?;
        if !is_whole {
            self.take_run(&mut rest, vocabulary, fields);
        }
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            if !is_whole && self.note_short(first, vocabulary, fields) {
                continue;
            }
            if first & 0x80 != 0 {
                self.indexed(first, &mut rest, vocabulary, fields)?;
            } else if first & 0x40 != 0 {
                self.inserted(first, &mut rest, vocabulary, fields)?;
            } else if first & 0x20 != 0 {
                return Err(Violation::SizeUpdateMisplaced);
            } else {
                self.literal(first, &mut rest, vocabulary, fields)?;
            }
        }
        // Long fields are rare while connections are many.
        self.scratch.take_if(|scratch| {
            scratch.name.capacity().max(scratch.value.capacity()) > HTTP2_PARTIAL_KEPT
        });
        Ok(())
    }

    /// Takes the one-byte indices at the start of a block, all at once if the same run was decoded
    /// before.
    #[inline]
    fn take_run(&mut self, rest: &mut &[u8], vocabulary: &Vocabulary, fields: &mut Fields) {
        let run = IndexRun::at_front(rest);
        if run.len() < RUN_MIN {
            return;
        }
        match self.runs.find(run, self.table.version()) {
            Some(noted) => {
                fields.restore(noted);
                *rest = &rest[run.len()..];
            }
            None => self.note_run(run, rest, vocabulary, fields),
        }
    }

    fn note_run(
        &mut self,
        run: IndexRun,
        rest: &mut &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) {
        for _ in 0..run.len() {
            if !self.note_short(rest[0], vocabulary, fields) {
                return;
            }
            *rest = &rest[1..];
        }
        self.runs.keep(run, self.table.version(), fields.noted());
    }

    /// Takes a field that is a one-byte index and only needs to be noted, as nearly all are.
    /// `false` leaves the state unchanged.
    #[inline(always)]
    fn note_short(&self, first: u8, vocabulary: &Vocabulary, fields: &mut Fields) -> bool {
        let index = usize::from(first.wrapping_sub(0x81));
        if index < STATIC_LEN {
            let entry = vocabulary.static_entry(index);
            return fields.note(&entry.meaning, entry.size);
        }
        // 0x7f is the prefix of a longer index, and larger values mean that there is no index.
        if index >= 0x7e {
            return false;
        }
        match self.table.entry(index - STATIC_LEN) {
            Some(entry) => fields.note(&entry.meaning(), entry.size()),
            None => false,
        }
    }

    /// Handles dynamic table size updates (section 6.3), which are allowed only before the fields
    /// (section 4.2).
    fn take_size_updates(&mut self, rest: &mut &[u8]) -> Result<(), Violation> {
        while let Some((&first, behind)) = rest.split_first()
            && first & 0xe0 == 0x20
        {
            *rest = behind;
            let size = integer::decode(first, 0x1f, rest)?;
            match u16::try_from(size) {
                Ok(size) if size <= self.limit => self.table.resize(size),
                _ => return Err(Violation::SizeUpdateTooLarge),
            }
        }
        match self.table.size_max() > self.limit {
            true => Err(Violation::SizeUpdateMissing),
            false => Ok(()),
        }
    }

    /// Decodes an indexed field (section 6.1).
    #[inline]
    fn indexed(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        let index = integer::decode(first, 0x7f, rest)?;
        if let Some(at) = index.checked_sub(STATIC_LEN + 1) {
            let entry = self.table.entry(at).ok_or(Violation::NoSuchIndex)?;
            let is_kept = fields.add(entry.meaning(), entry.size());
            if is_kept || fields.keeps_texts() {
                let (name, value) = self.table.text(entry);
                fields.keep_text(is_kept, name, value);
            }
            return Ok(());
        }
        let at = index.checked_sub(1).ok_or(Violation::NoSuchIndex)?;
        let entry = vocabulary.static_entry(at);
        let is_kept = fields.add(entry.meaning, entry.size);
        if is_kept || fields.keeps_texts() {
            let (name, value) = STATIC_TABLE[at];
            fields.keep_text(is_kept, name, value);
        }
        Ok(())
    }

    /// Decodes a literal field that is not added to the table (sections 6.2.2 and 6.2.3).
    fn literal(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        let index = integer::decode(first, 0x0f, rest)?;
        let scratch = self.scratch.get_or_insert_default();
        let (class, name) = if index == 0 {
            let name = take_string(rest, &mut scratch.name)?;
            (vocabulary.class(name), name)
        } else if let Some(at) = index.checked_sub(STATIC_LEN + 1) {
            let entry = self.table.entry(at).ok_or(Violation::NoSuchIndex)?;
            (entry.class, self.table.text(entry).0)
        } else {
            (vocabulary.static_entry(index - 1).class, STATIC_TABLE[index - 1].0)
        };
        let value = take_string(rest, &mut scratch.value)?;
        let meaning = vocabulary.meaning(class, value);
        let is_kept = fields.add(meaning, field_size(name.len(), value.len()) as u32);
        if is_kept || fields.keeps_texts() {
            fields.keep_text(is_kept, name, value);
        }
        Ok(())
    }

    /// Decodes a literal field and adds it to the table (section 6.2.1). That may evict the entry
    /// that names it.
    fn inserted(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        let index = integer::decode(first, 0x3f, rest)?;
        let scratch = self.scratch.get_or_insert_default();
        let (class, name) = if index == 0 {
            let name = take_string(rest, &mut scratch.name)?;
            (vocabulary.class(name), name)
        } else if let Some(at) = index.checked_sub(STATIC_LEN + 1) {
            let entry = self.table.entry(at).ok_or(Violation::NoSuchIndex)?;
            scratch.name.clear();
            scratch.name.extend_from_slice(self.table.text(entry).0);
            (entry.class, &scratch.name[..])
        } else {
            (vocabulary.static_entry(index - 1).class, STATIC_TABLE[index - 1].0)
        };
        let value = take_string(rest, &mut scratch.value)?;
        let meaning = vocabulary.meaning(class, value);
        let is_kept = fields.add(meaning, field_size(name.len(), value.len()) as u32);
        if is_kept || fields.keeps_texts() {
            fields.keep_text(is_kept, name, value);
        }
        self.table.insert(name, value, class, meaning);
        Ok(())
    }
}

/// Takes a string (section 5.2), borrowed from the block or decoded into `scratch`.
pub(super) fn take_string<'s, 'b: 's>(
    rest: &mut &'b [u8],
    scratch: &'s mut Vec<u8>,
) -> Result<&'s [u8], Violation> {
    let (&first, behind) = rest.split_first().ok_or(Violation::BlockTruncated)?;
    *rest = behind;
    let len = integer::decode(first, 0x7f, rest)?;
    let (string, behind) = rest.split_at_checked(len).ok_or(Violation::BlockTruncated)?;
    *rest = behind;
    if first & 0x80 == 0 {
        return Ok(string);
    }
    scratch.clear();
    huffman::decode(string, scratch)?;
    Ok(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::fuzz::Keeper;

    #[test]
    fn memory_of_long_fields_is_freed() {
        let (mut decoder, vocabulary) = (Decoder::default(), Vocabulary::new(Keeper));
        let mut fields = Fields::new(16 << 10);
        let mut block = vec![0];
        for _ in 0..2 {
            let text = [b'x'; 30_000];
            integer::encode(0x80, 0x7f, huffman::encoded_len(&text), &mut block);
            huffman::encode(&text, &mut block);
        }
        decoder.decode(&block, &vocabulary, &mut fields).expect("well-formed");
        assert!(decoder.scratch.is_none());
    }
}
