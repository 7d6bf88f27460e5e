//! Reading the metadata of a frame (section 4).

use super::{Tag, Violation, varint};

/// An iterator over the pieces of a frame's metadata, each encoded as `tag u8 · length varint ·
/// value`.
///
/// Unknown tags that later versions declare optional are skipped. The iterator ends after an error.
///
/// # Examples
///
/// ```
/// use ringway_wire::native::{MetaReader, Tag};
///
/// let mut meta = MetaReader::new(b"\x04\x02no\x00\x04\x01kto");
/// assert_eq!(meta.next(), Some(Ok((Tag::StatusMessage, &b"no"[..]))));
/// let Some(Ok((Tag::Entry, entry))) = meta.next() else { panic!("an entry") };
/// assert_eq!(MetaReader::entry(entry)?, (&b"k"[..], &b"to"[..]));
/// assert_eq!(meta.next(), None);
/// # Ok::<(), ringway_wire::native::Violation>(())
/// ```
#[derive(Debug, Clone)]
pub struct MetaReader<'a> {
    rest: &'a [u8],
}

impl<'a> MetaReader<'a> {
    /// Creates a reader of `meta`, the metadata of one frame.
    #[inline]
    #[must_use]
    pub const fn new(meta: &'a [u8]) -> Self {
        Self { rest: meta }
    }

    /// Splits the value of an [`Entry`](Tag::Entry) into key and value.
    ///
    /// # Errors
    ///
    /// Returns [`TornMetadata`](Violation::TornMetadata) when the key is longer than the entry.
    pub fn entry(value: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Violation> {
        let mut rest = value;
        varint::take(&mut rest)
            .and_then(|len| rest.split_at_checked(usize::try_from(len).ok()?))
            .ok_or(Violation::TornMetadata { tag: Tag::Entry })
    }

    /// Reads the microseconds in the value of a [`TimeoutUs`](Tag::TimeoutUs).
    ///
    /// # Errors
    ///
    /// Returns [`TornMetadata`](Violation::TornMetadata) when the value is not exactly one varint.
    pub fn timeout_us(value: &[u8]) -> Result<u64, Violation> {
        varint::whole(value).ok_or(Violation::TornMetadata { tag: Tag::TimeoutUs })
    }

    /// Reads the milliseconds in the value of a [`Pushback`](Tag::Pushback); a negative number
    /// forbids a retry.
    ///
    /// # Errors
    ///
    /// Returns [`TornMetadata`](Violation::TornMetadata) when the value is not exactly one varint.
    pub fn pushback_ms(value: &[u8]) -> Result<i64, Violation> {
        let number = varint::whole(value).ok_or(Violation::TornMetadata { tag: Tag::Pushback })?;
        Ok(varint::unzigzag(number))
    }

    fn take(&mut self) -> Option<(u8, &'a [u8])> {
        let (&code, mut rest) = self.rest.split_first()?;
        let len = usize::try_from(varint::take(&mut rest)?).ok()?;
        let (value, rest) = rest.split_at_checked(len)?;
        self.rest = rest;
        Some((code, value))
    }
}

impl<'a> Iterator for MetaReader<'a> {
    type Item = Result<(Tag, &'a [u8]), Violation>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&code) = self.rest.first() {
            let tag = Tag::from_code(code);
            let Some((_, value)) = self.take() else {
                self.rest = &[];
                let tag = tag.unwrap_or(Tag::Unknown(code));
                return Some(Err(Violation::TornMetadata { tag }));
            };
            if let Some(tag) = tag {
                return Some(Ok((tag, value)));
            }
        }
        None
    }
}

impl std::iter::FusedIterator for MetaReader<'_> {}

#[cfg(test)]
mod tests {
    use super::MetaReader;
    use crate::native::{Tag, Violation};

    #[test]
    fn unknown_tags_are_skipped_only_with_the_high_bit() {
        let read = |meta| MetaReader::new(meta).collect::<Result<Vec<_>, _>>();
        assert_eq!(read(b"\x83\x01x\x06\x00\xff\x00"), Ok(vec![(Tag::Refused, &b""[..])]));
        assert_eq!(read(b"\x7f\x01x"), Ok(vec![(Tag::Unknown(0x7f), &b"x"[..])]));
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn a_torn_piece_ends_the_iterator_with_an_error() {
        let cases: [(&[u8], Tag); 5] = [
            (b"\x04", Tag::StatusMessage),
            (b"\x04\x02n", Tag::StatusMessage),
            (b"\x04\x80", Tag::StatusMessage),
            (b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01n", Tag::StatusMessage),
            (b"\x99\x09short", Tag::Unknown(0x99)),
        ];
        for (meta, tag) in cases {
            let mut reader = MetaReader::new(meta);
            assert_eq!(reader.next(), Some(Err(Violation::TornMetadata { tag })), "{meta:?}");
            assert_eq!(reader.next(), None);
        }
    }

    #[test]
    fn values_are_decoded_and_torn_ones_rejected() {
        let torn = |tag| Violation::TornMetadata { tag };
        assert_eq!(MetaReader::entry(b"\0v"), Ok((&b""[..], &b"v"[..])));
        assert_eq!(MetaReader::entry(b"\x02kk"), Ok((&b"kk"[..], &b""[..])));
        assert_eq!(MetaReader::entry(b"\x03kk"), Err(torn(Tag::Entry)));
        assert_eq!(MetaReader::entry(b""), Err(torn(Tag::Entry)));
        assert_eq!(MetaReader::timeout_us(b"\x80\x01"), Ok(128));
        assert_eq!(MetaReader::timeout_us(b"\x80"), Err(torn(Tag::TimeoutUs)));
        assert_eq!(MetaReader::timeout_us(b"\x01\x01"), Err(torn(Tag::TimeoutUs)));
        assert_eq!(MetaReader::pushback_ms(b"\x01"), Ok(-1));
        assert_eq!(MetaReader::pushback_ms(b""), Err(torn(Tag::Pushback)));
    }
}
