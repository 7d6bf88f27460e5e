//! Fuzz functions that decode arbitrary field blocks and pass fields through both ends of a
//! connection.

use super::{Decoder, Encoder, Line};
use crate::http2::{Fields, Key, Known, Resolver, Violation, Vocabulary};

/// A resolver that knows no field, so that every text is kept.
#[derive(Debug)]
pub(super) struct Keeper;

impl Resolver for Keeper {
    fn key(&self, _: &[u8]) -> Option<Key> {
        None
    }

    fn value(&self, _: Key, _: &[u8]) -> Known {
        Known { value: 0, keep: true }
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes blocks of up to 255 bytes, each preceded by its length; the first byte selects the
/// limits.
pub fn fuzz(data: &[u8]) {
    let Some((&form, mut rest)) = data.split_first() else {
        return;
    };
    let vocabulary = Vocabulary::new(Keeper);
    let mut fields = Fields::new(if form & 1 == 0 { 1 << 20 } else { 200 });
    let mut decoder = Decoder::default();
    if form & 2 != 0 {
        decoder.set_limit(u32::from(form));
    }
    let mut path = Path { vocabulary, encoder: Encoder::default(), decoder: Decoder::default() };
    while let Some((&len, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        let result = decoder.decode(block, &path.vocabulary, &mut fields);
        if result.is_err() {
            return;
        }
        let texts: Pairs = fields.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        if form & 4 != 0 {
            path.encoder.set_limit(u32::from(len) * 16);
        }
        path.check(&texts);
    }
}

/// An encoder, and a decoder of its output.
struct Path {
    vocabulary: Vocabulary,
    encoder: Encoder,
    decoder: Decoder,
}

impl Path {
    /// Encodes decoded fields in every way, and decodes them again.
    fn check(&mut self, texts: &Pairs) {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (at, (name, value)) in texts.iter().enumerate() {
            // An id must always have the same name and value.
            let id = 0;
            let line = match at % 4 {
                0 if name == b"x" && value == b"y" => Line::Fixed { id, name, value },
                1 if name == b"z" => Line::Named { id: 1, name, value },
                2 => Line::Secret { name, value },
                _ => Line::Once { name, value },
            };
            match at % 3 {
                0 => Encoder::put_apart(&line, &mut block),
                _ => self.encoder.put(&line, &mut block),
            }
        }
        let mut again = Fields::new(1 << 20);
        let decoded: Result<(), Violation> =
            self.decoder.decode(&block, &self.vocabulary, &mut again);
        assert_eq!(decoded, Ok(()), "our own blocks are well-formed");
        let again: Pairs = again.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        assert_eq!(again, *texts);
    }
}
