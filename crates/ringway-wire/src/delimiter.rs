//! Frames that end with a delimiter.

use memchr::memmem::Finder;

use crate::{Codec, Decoded, Error};

/// A codec for frames that end with a delimiter, which is not part of the item.
///
/// Bytes already searched are not searched again when more arrive, so a frame that arrives slowly
/// costs no more than one that arrives at once.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Codec, Decoded, Delimiter, Error};
///
/// let mut codec = Delimiter::new(b"\r\n.\r\n", 1024);
/// let mut bytes = Vec::new();
/// codec.encode(b"one mail", &mut bytes)?;
/// assert_eq!(bytes, b"one mail\r\n.\r\n");
/// assert_eq!(codec.decode(&bytes)?, Decoded::Frame { item: &b"one mail"[..], consumed: 13 });
///
/// let error = codec.encode(b"a\r\n.\r\nb", &mut bytes).unwrap_err();
/// assert_eq!(error, Error::DelimiterInPayload { at: 1 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Delimiter {
    finder: Finder<'static>,
    max: usize,
    /// Number of bytes at the front of the next frame in which no delimiter starts.
    searched: usize,
}

impl Delimiter {
    /// Creates a codec for frames of at most `payload_len_max` bytes, each followed by `delimiter`.
    ///
    /// # Panics
    ///
    /// Panics when `delimiter` is empty.
    #[must_use]
    pub fn new(delimiter: &[u8], payload_len_max: usize) -> Self {
        assert!(!delimiter.is_empty(), "a delimiter has at least one byte");
        let finder = Finder::new(delimiter).into_owned();
        Self { finder, max: payload_len_max, searched: 0 }
    }

    fn delimiter_len(&self) -> usize {
        self.finder.needle().len()
    }

    /// Number of positions at the front of `len` bytes at which a whole delimiter could start.
    fn positions(&self, len: usize) -> usize {
        (len + 1).saturating_sub(self.delimiter_len())
    }
}

impl Codec for Delimiter {
    type Item<'a> = &'a [u8];

    #[inline]
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<&'a [u8]>, Error> {
        let window = &input[..input.len().min(self.frame_len_max())];
        // The input may be shorter than the one searched before.
        let from = self.searched.min(self.positions(window.len()));
        if let Some(found) = self.finder.find(&window[from..]) {
            self.searched = 0;
            let end = from + found;
            return Ok(Decoded::Frame {
                item: &window[..end],
                consumed: end + self.delimiter_len(),
            });
        }
        self.searched = self.positions(window.len());
        if window.len() == self.frame_len_max() {
            return Err(Error::MissingDelimiter { max: self.max });
        }
        Ok(Decoded::NeedAtLeast(input.len() + 1))
    }

    /// Appends `payload` and the delimiter.
    ///
    /// # Errors
    ///
    /// Returns [`PayloadTooLarge`](Error::PayloadTooLarge), or
    /// [`DelimiterInPayload`](Error::DelimiterInPayload) when a delimiter would be found before the
    /// appended one. `out` is then unchanged.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if payload.len() > self.max {
            return Err(Error::PayloadTooLarge { len: payload.len(), max: self.max });
        }
        let start = out.len();
        out.reserve(payload.len() + self.delimiter_len());
        out.extend_from_slice(payload);
        out.extend_from_slice(self.finder.needle());
        // Searched with the delimiter in place: the end of the payload and the start of the
        // delimiter may form a delimiter together.
        match self.finder.find(&out[start..]) {
            Some(at) if at < payload.len() => {
                out.truncate(start);
                Err(Error::DelimiterInPayload { at })
            }
            _ => Ok(()),
        }
    }

    fn frame_len_max(&self) -> usize {
        self.max.saturating_add(self.delimiter_len())
    }
}

/// Decodes `data` with a delimiter chosen by its first bytes, whole and in pieces.
pub fn fuzz(data: &[u8]) {
    let Some((&[choice, max, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let delimiter: &[u8] = match choice & 3 {
        0 => b"\0",
        1 => b"\r\n",
        2 => b"aab",
        _ => b"aaaa",
    };
    let codec = Delimiter::new(delimiter, usize::from(max));
    for payload in crate::cut::same_when_cut(|| codec.clone(), <[u8]>::to_vec, stream, cut) {
        let mut bytes = Vec::new();
        codec.clone().encode(&payload, &mut bytes).expect("decoded, so encodable");
        assert_eq!(bytes, [&payload[..], delimiter].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::Delimiter;
    use crate::{Codec, Decoded, Error};

    fn frame(item: &[u8], consumed: usize) -> Result<Decoded<&[u8]>, Error> {
        Ok(Decoded::Frame { item, consumed })
    }

    #[test]
    fn only_searched_bytes_are_remembered() {
        let mut codec = Delimiter::new(b"ab", 16);
        assert_eq!(codec.decode(b"xxxa"), Ok(Decoded::NeedAtLeast(5)));
        assert_eq!(codec.searched, 3, "the last byte may begin a delimiter");
        assert_eq!(codec.decode(b"xx"), Ok(Decoded::NeedAtLeast(3)), "a shorter cut");
        assert_eq!(codec.searched, 1);
        assert_eq!(codec.decode(b"xxxab"), frame(b"xxx", 5));
        assert_eq!(codec.searched, 0);
        assert_eq!(codec.decode(b"ab"), frame(b"", 2));
    }

    #[test]
    fn the_limit_applies_to_the_payload() {
        let mut codec = Delimiter::new(b"--", 3);
        assert_eq!(codec.decode(b"abc--"), frame(b"abc", 5));
        assert_eq!(codec.decode(b"abcd"), Ok(Decoded::NeedAtLeast(5)));
        for input in [&b"abcd-"[..], b"abcd--", b"abcde--"] {
            let mut codec = Delimiter::new(b"--", 3);
            assert_eq!(codec.decode(input), Err(Error::MissingDelimiter { max: 3 }), "{input:?}");
        }
    }

    #[test]
    fn a_payload_that_contains_the_delimiter_is_refused() {
        let cases: [(&[u8], Result<(), Error>); 5] = [
            (b"abc", Ok(())),
            (b"", Ok(())),
            (b"aab", Err(Error::DelimiterInPayload { at: 0 })),
            (b"xaaba", Err(Error::DelimiterInPayload { at: 1 })),
            (b"abcdefghi", Err(Error::PayloadTooLarge { len: 9, max: 8 })),
        ];
        for (payload, expected) in cases {
            let mut out = b"before".to_vec();
            assert_eq!(Delimiter::new(b"aab", 8).encode(payload, &mut out), expected);
            assert_eq!(out.len() > 6, expected.is_ok());
        }
        // "x", "aa", "aa": the first delimiter would start one byte early.
        let mut out = Vec::new();
        let error = Delimiter::new(b"aa", 8).encode(b"xa", &mut out);
        assert_eq!((error, out.len()), (Err(Error::DelimiterInPayload { at: 1 }), 0));
    }
}
