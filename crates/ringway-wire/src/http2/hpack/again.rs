//! Reads the texts of a block that was decoded without them.

use super::decoder::take_string;
use super::dynamic_table::DynamicTable;
use super::{Decoder, STATIC_LEN, STATIC_TABLE, integer};
use crate::http2::Violation;
use crate::http2::texts::Texts;

/// A field as a block represents it (RFC 7541, section 6).
enum BlockField {
    /// An index of name and value.
    Indexed(usize),
    Literal {
        name: Name,
        value: Vec<u8>,
        is_inserted: bool,
    },
    SizeUpdate,
}

enum Name {
    Indexed(usize),
    Coded(Vec<u8>),
}

/// A string of a block.
fn take_text(rest: &mut &[u8]) -> Result<Vec<u8>, Violation> {
    take_string(rest, &mut Vec::new()).map(<[u8]>::to_vec)
}

impl BlockField {
    fn take(rest: &mut &[u8]) -> Result<Self, Violation> {
        let (&first, behind) = rest.split_first().ok_or(Violation::BlockTruncated)?;
        *rest = behind;
        if first & 0x80 != 0 {
            return integer::decode(first, 0x7f, rest).map(Self::Indexed);
        }
        if first & 0x60 == 0x20 {
            return integer::decode(first, 0x1f, rest).map(|_size| Self::SizeUpdate);
        }
        let is_inserted = first & 0x40 != 0;
        let name = match integer::decode(first, if is_inserted { 0x3f } else { 0x0f }, rest)? {
            0 => Name::Coded(take_text(rest)?),
            index => Name::Indexed(index),
        };
        Ok(Self::Literal { name, value: take_text(rest)?, is_inserted })
    }
}

impl Decoder {
    /// Adds the texts of the block that was decoded last, which was well-formed. `None` when one is
    /// gone, because the block itself has evicted it from the table with very many others.
    #[cold]
    pub(in crate::http2) fn read_texts(&self, block: &[u8], texts: &mut Texts) -> Option<()> {
        let (mut rest, mut inserted) = (block, 0);
        while !rest.is_empty() {
            let field = BlockField::take(&mut rest).ok()?;
            inserted += usize::from(matches!(field, BlockField::Literal { is_inserted: true, .. }));
        }
        let (mut rest, mut newer) = (block, inserted);
        while !rest.is_empty() {
            match BlockField::take(&mut rest).ok()? {
                BlockField::SizeUpdate => {}
                BlockField::Indexed(index) => {
                    let (name, value) = text_at(&self.table, index, newer)?;
                    texts.push(name, value);
                }
                BlockField::Literal { name, value, is_inserted } => {
                    match name {
                        Name::Coded(name) => texts.push(&name, &value),
                        Name::Indexed(index) => {
                            texts.push(text_at(&self.table, index, newer)?.0, &value);
                        }
                    }
                    newer -= usize::from(is_inserted);
                }
            }
        }
        Some(())
    }
}

/// The entry that had this index before the `newer` last entries were inserted.
fn text_at(table: &DynamicTable, index: usize, newer: usize) -> Option<(&[u8], &[u8])> {
    match index.checked_sub(STATIC_LEN + 1) {
        Some(at) => table.recent(at + newer).map(|entry| table.text(entry)),
        None => STATIC_TABLE.get(index.checked_sub(1)?).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::fuzz::Keeper;
    use crate::http2::{Encoder, Fields, Line, Vocabulary};

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn pairs<'t>(texts: impl Iterator<Item = (&'t [u8], &'t [u8])>) -> Pairs {
        texts.map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    #[test]
    fn texts_are_the_same_when_they_are_read_afterwards() {
        let vocabulary = Vocabulary::new(Keeper);
        let (mut decoder, mut encoder) = (Decoder::default(), Encoder::default());
        decoder.read_again();
        for round in 0..200_usize {
            let value = "v".repeat(round * 7 % 1_900);
            let old = (round / 3).to_string();
            let lines = [
                Line::Static(3),
                Line::Fixed { id: 1, name: b"same", value: b"always" },
                Line::Named { id: 2, name: b"named", value: old.as_bytes() },
                Line::Fixed {
                    id: 3 + (round % 50) as u16,
                    name: format!("name-{}", round % 50).leak().as_bytes(),
                    value: "x".repeat(round % 50 * 30).leak().as_bytes(),
                },
                Line::Once { name: b"once", value: value.as_bytes() },
                Line::Secret { name: b"secret", value: old.as_bytes() },
            ];
            let mut block = Vec::new();
            encoder.begin(&mut block);
            lines.iter().for_each(|line| encoder.put(line, &mut block));
            let mut fields = Fields::new(1 << 20);
            decoder.decode(&block, &vocabulary, &mut fields).expect("well-formed");
            let mut texts = Texts::default();
            assert_eq!(decoder.read_texts(&block, &mut texts), Some(()), "round {round}");
            assert_eq!(pairs(texts.iter()), pairs(fields.iter()), "round {round}");
        }
    }

    /// A literal of one name that enters the table.
    fn insert(len: usize, byte: u8) -> Vec<u8> {
        let mut literal = vec![0x40, 1, b'n'];
        integer::encode(0, 0x7f, len, &mut literal);
        literal.extend(std::iter::repeat_n(byte, len));
        literal
    }

    /// Reads these blocks one after the other; the texts of the last.
    fn read_last(blocks: &[Vec<u8>]) -> Option<Pairs> {
        let (vocabulary, mut decoder) = (Vocabulary::new(Keeper), Decoder::default());
        decoder.read_again();
        let mut fields = Fields::new(1 << 20);
        let mut read = None;
        for block in blocks {
            decoder.decode(block, &vocabulary, &mut fields).expect("well-formed");
            let mut texts = Texts::default();
            read = decoder.read_texts(block, &mut texts).map(|()| pairs(texts.iter()));
            let is_right = read.as_ref().is_none_or(|read| *read == pairs(fields.iter()));
            assert!(is_right, "{read:?}");
        }
        read
    }

    const NEWEST: u8 = 0x80 | 62;

    #[test]
    fn what_a_block_has_evicted_itself_is_read_as_far_as_it_is_kept() {
        let named = |inserted: usize| {
            let more = (0..inserted).flat_map(|_| insert(3_000, b'b'));
            let block: Vec<u8> = [NEWEST].into_iter().chain(more).collect();
            read_last(&[insert(3_000, b'a'), block]).map(|pairs| pairs.len())
        };
        assert_eq!([1, 3, 4].map(named), [Some(2), Some(4), Some(5)]);
        assert_eq!([6, 20].map(named), [None, None], "the table was replaced too often");
        // The next block finds what it names.
        let blocks = [insert(3_000, b'a'), insert(3_001, b'b'), vec![NEWEST]];
        assert_eq!(read_last(&blocks), Some(vec![(b"n".to_vec(), vec![b'b'; 3_001])]));
    }

    #[test]
    fn an_entry_larger_than_the_table_is_between_those_before_and_after_it() {
        let large = insert(5_000, b'c');
        let block = [&[NEWEST][..], &large, &insert(7, b'd'), &[NEWEST], &large, &insert(8, b'e')];
        let read = read_last(&[insert(3_000, b'a'), block.concat()]).expect("all are kept");
        let lens: Vec<_> = read.iter().map(|(_, value)| value.len()).collect();
        assert_eq!(lens, [3_000, 5_000, 7, 7, 5_000, 8]);
    }
}
