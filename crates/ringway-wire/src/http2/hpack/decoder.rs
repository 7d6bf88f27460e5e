//! Field blocks into fields (RFC 7541, section 6).

use super::dynamic_table::DynamicTable;
use super::{STATIC_LEN, STATIC_TABLE, TABLE_SIZE_DEFAULT, huffman, integer};
use crate::http2::fields::{Fields, field_size};
use crate::http2::{Violation, Vocabulary};
use crate::limits::HTTP2_PARTIAL_KEPT;

/// The state of a connection's received field blocks.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// Largest table that the peer may ask for.
    limit: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        let limit = TABLE_SIZE_DEFAULT as usize;
        Self { table: DynamicTable::new(limit), limit, name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Changes the largest size of the table, once the peer has acknowledged the setting.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit as usize;
    }

    /// Decodes a whole field block. What a field means comes from the table or from `vocabulary`.
    /// Fields beyond the bound of `fields` are left out, and the table is kept right.
    ///
    /// # Errors
    ///
    /// When the block makes no sense: nothing of this connection can be decoded after it. A field
    /// that a message may not have is a fault of its message only.
    pub fn decode(
        &mut self,
        block: &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        fields.clear();
        let mut rest = block;
        self.take_size_updates(&mut rest)?;
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            if self.note_short(first, vocabulary, fields) {
                continue;
            }
            if first & 0x80 != 0 {
                self.indexed(first, &mut rest, vocabulary, fields)?;
            } else if first & 0x40 != 0 {
                self.literal(first, 0x3f, &mut rest, vocabulary, fields)?;
            } else if first & 0x20 != 0 {
                return Err(Violation::SizeUpdateMisplaced);
            } else {
                self.literal(first, 0x0f, &mut rest, vocabulary, fields)?;
            }
        }
        if self.name.capacity().max(self.value.capacity()) > HTTP2_PARTIAL_KEPT {
            self.drop_spare();
        }
        Ok(())
    }

    /// Long fields are rare, and connections are many.
    #[cold]
    fn drop_spare(&mut self) {
        for text in [&mut self.name, &mut self.value] {
            text.clear();
            text.shrink_to(HTTP2_PARTIAL_KEPT);
        }
    }

    /// Takes a field that is an index of one byte and asks for nothing but to be noted, as nearly
    /// all are. `false`: nothing was done.
    #[inline(always)]
    fn note_short(&self, first: u8, vocabulary: &Vocabulary, fields: &mut Fields) -> bool {
        let index = usize::from(first.wrapping_sub(0x81));
        if index < STATIC_LEN {
            let entry = vocabulary.static_entry(index);
            return fields.note(&entry.meaning, entry.size);
        }
        // 0x7f is the prefix of a longer index, and what is above was no index.
        if index >= 0x7e {
            return false;
        }
        match self.table.entry(index - STATIC_LEN) {
            Some(entry) => fields.note(&entry.meaning, entry.size),
            None => false,
        }
    }

    /// Section 6.3. They stand in front of the fields only (section 4.2).
    fn take_size_updates(&mut self, rest: &mut &[u8]) -> Result<(), Violation> {
        while let Some((&first, behind)) = rest.split_first()
            && first & 0xe0 == 0x20
        {
            *rest = behind;
            let size = integer::decode(first, 0x1f, rest)?;
            if size > self.limit {
                return Err(Violation::SizeUpdateTooLarge);
            }
            self.table.resize(size);
        }
        match self.table.size_max() > self.limit {
            true => Err(Violation::SizeUpdateMissing),
            false => Ok(()),
        }
    }

    /// Section 6.1.
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
            if fields.add(entry.meaning, entry.size) {
                let (name, value) = self.table.text(entry);
                fields.keep(name, value);
            }
            return Ok(());
        }
        let at = index.checked_sub(1).ok_or(Violation::NoSuchIndex)?;
        let entry = vocabulary.static_entry(at);
        if fields.add(entry.meaning, entry.size) {
            let (name, value) = STATIC_TABLE[at];
            fields.keep(name, value);
        }
        Ok(())
    }

    /// Sections 6.2.1 to 6.2.3; `mask` tells the first, whose entries are inserted.
    fn literal(
        &mut self,
        first: u8,
        mask: u8,
        rest: &mut &[u8],
        vocabulary: &Vocabulary,
        fields: &mut Fields,
    ) -> Result<(), Violation> {
        let index = integer::decode(first, mask, rest)?;
        self.name.clear();
        self.value.clear();
        let class = if index == 0 {
            take_string(rest, &mut self.name)?;
            vocabulary.class(&self.name)
        } else if let Some(at) = index.checked_sub(STATIC_LEN + 1) {
            let entry = self.table.entry(at).ok_or(Violation::NoSuchIndex)?;
            self.name.extend_from_slice(self.table.text(entry).0);
            entry.class
        } else {
            self.name.extend_from_slice(STATIC_TABLE[index - 1].0);
            vocabulary.static_entry(index - 1).class
        };
        take_string(rest, &mut self.value)?;
        let meaning = vocabulary.meaning(class, &self.value);
        let size = field_size(self.name.len(), self.value.len());
        if fields.add(meaning, size as u32) {
            fields.keep(&self.name, &self.value);
        }
        if mask == 0x3f {
            self.table.insert(&self.name, &self.value, class, meaning);
        }
        Ok(())
    }
}

/// A string (section 5.2), appended to `out`.
fn take_string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
    let (&first, behind) = rest.split_first().ok_or(Violation::BlockTruncated)?;
    *rest = behind;
    let len = integer::decode(first, 0x7f, rest)?;
    let (string, behind) = rest.split_at_checked(len).ok_or(Violation::BlockTruncated)?;
    *rest = behind;
    if first & 0x80 != 0 {
        return huffman::decode(string, out);
    }
    out.extend_from_slice(string);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::fuzz::Keeper;

    #[test]
    fn memory_of_long_fields_is_given_back() {
        let (mut decoder, vocabulary) = (Decoder::default(), Vocabulary::new(Keeper));
        let mut fields = Fields::new(16 << 10);
        let mut block = vec![0];
        for _ in 0..2 {
            integer::encode(0, 0x7f, 30_000, &mut block);
            block.extend_from_slice(&[b'x'; 30_000]);
        }
        decoder.decode(&block, &vocabulary, &mut fields).expect("well-formed");
        assert!(decoder.name.capacity() + decoder.value.capacity() <= 2 * HTTP2_PARTIAL_KEPT);
    }
}
