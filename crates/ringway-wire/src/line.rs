//! Lines of text, or of any bytes without a line feed.

use memchr::memchr;

use crate::{Codec, Decoded, Error};

/// A codec for frames that end with a line feed; a carriage return right before it is stripped.
///
/// It sends LF, or CR LF after [`crlf`](Self::crlf), and accepts both in any mixture. Bytes already
/// searched are not searched again when more arrive.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Codec, Decoded, Error, Line};
///
/// let mut codec = Line::new(1024).crlf();
/// let mut bytes = Vec::new();
/// codec.encode(b"HELO example.org", &mut bytes)?;
/// assert_eq!(bytes, b"HELO example.org\r\n");
/// assert_eq!(codec.decode(b"250 OK\nrest")?, Decoded::Frame { item: &b"250 OK"[..], consumed: 7 });
///
/// let error = codec.encode(b"two\nlines", &mut bytes).unwrap_err();
/// assert_eq!(error, Error::DelimiterInPayload { at: 3 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Line {
    max: usize,
    ending: &'static [u8],
    /// Number of bytes at the front of the next line that contain no line feed.
    searched: usize,
}

impl Line {
    /// Creates a codec for lines of at most `payload_len_max` bytes, without the line ending.
    #[must_use]
    pub const fn new(payload_len_max: usize) -> Self {
        Self { max: payload_len_max, ending: LF, searched: 0 }
    }

    /// Makes every line sent end with CR LF instead of LF.
    #[must_use]
    pub const fn crlf(mut self) -> Self {
        self.ending = CRLF;
        self
    }

    /// The offset at which a reader of the line would cut `payload`, if any.
    fn cut_in(&self, payload: &[u8]) -> Option<usize> {
        let stripped = self.ending == LF && payload.ends_with(b"\r");
        memchr(b'\n', payload).or(stripped.then(|| payload.len() - 1))
    }
}

impl Codec for Line {
    type Item<'a> = &'a [u8];

    #[inline]
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<&'a [u8]>, Error> {
        let window = &input[..input.len().min(self.frame_len_max())];
        // The input may be shorter than the one searched before.
        let from = self.searched.min(window.len());
        let Some(found) = memchr(b'\n', &window[from..]) else {
            self.searched = window.len();
            if window.len() == self.frame_len_max() {
                return Err(Error::MissingDelimiter { max: self.max });
            }
            return Ok(Decoded::NeedAtLeast(input.len() + 1));
        };
        self.searched = 0;
        let line = &window[..from + found];
        let item = line.strip_suffix(b"\r").unwrap_or(line);
        if item.len() > self.max {
            return Err(Error::MissingDelimiter { max: self.max });
        }
        Ok(Decoded::Frame { item, consumed: line.len() + 1 })
    }

    /// Appends `payload` and the line ending.
    ///
    /// # Errors
    ///
    /// Returns [`PayloadTooLarge`](Error::PayloadTooLarge), or
    /// [`DelimiterInPayload`](Error::DelimiterInPayload) when the payload contains a line feed, or
    /// ends with a carriage return that the receiver would take for part of the line ending. `out`
    /// is then unchanged.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if payload.len() > self.max {
            return Err(Error::PayloadTooLarge { len: payload.len(), max: self.max });
        }
        if let Some(at) = self.cut_in(payload) {
            return Err(Error::DelimiterInPayload { at });
        }
        out.reserve(payload.len() + self.ending.len());
        out.extend_from_slice(payload);
        out.extend_from_slice(self.ending);
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        self.max.saturating_add(CRLF.len())
    }
}

const LF: &[u8] = b"\n";
const CRLF: &[u8] = b"\r\n";

/// Decodes `data` as lines, whole and in pieces.
pub fn fuzz(data: &[u8]) {
    let Some((&[max, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let codec = Line::new(usize::from(max)).crlf();
    for payload in crate::cut::same_when_cut(|| codec.clone(), <[u8]>::to_vec, stream, cut) {
        let mut bytes = Vec::new();
        codec.clone().encode(&payload, &mut bytes).expect("decoded, so encodable");
        assert_eq!(bytes, [&payload[..], CRLF].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::Line;
    use crate::{Codec, Decoded, Error};

    fn frame(item: &[u8], consumed: usize) -> Result<Decoded<&[u8]>, Error> {
        Ok(Decoded::Frame { item, consumed })
    }

    #[test]
    fn lf_and_crlf_end_a_line() {
        let cases: [(&[u8], &[u8], usize); 6] = [
            (b"\n", b"", 1),
            (b"\r\n", b"", 2),
            (b"ab\ncd", b"ab", 3),
            (b"ab\r\ncd", b"ab", 4),
            (b"ab\r\r\n", b"ab\r", 5),
            (b"a\rb\n", b"a\rb", 4),
        ];
        for (input, item, consumed) in cases {
            assert_eq!(Line::new(4).decode(input), Ok(Decoded::Frame { item, consumed }));
        }
    }

    #[test]
    fn the_limit_applies_to_the_payload() {
        let too_long = Err(Error::MissingDelimiter { max: 2 });
        assert_eq!(Line::new(2).decode(b"ab\r\n"), frame(b"ab", 4));
        assert_eq!(Line::new(2).decode(b"abc"), Ok(Decoded::NeedAtLeast(4)));
        assert_eq!(Line::new(2).decode(b"abc\n"), too_long);
        assert_eq!(Line::new(2).decode(b"abc\r\n"), too_long);
        assert_eq!(Line::new(2).decode(b"abcd"), too_long);
    }

    #[test]
    fn only_searched_bytes_are_remembered() {
        let mut codec = Line::new(16);
        assert_eq!(codec.decode(b"xxx\r"), Ok(Decoded::NeedAtLeast(5)));
        assert_eq!(codec.searched, 4);
        assert_eq!(codec.decode(b"xx"), Ok(Decoded::NeedAtLeast(3)), "a shorter cut");
        assert_eq!(codec.decode(b"xxx\r\n"), frame(b"xxx", 5));
        assert_eq!(codec.decode(b"\n"), frame(b"", 1));
    }

    #[test]
    fn a_payload_that_contains_a_line_ending_is_refused() {
        let mut out = Vec::new();
        let cut = |at| Err(Error::DelimiterInPayload { at });
        assert_eq!(Line::new(8).encode(b"a\nb", &mut out), cut(1));
        assert_eq!(Line::new(8).encode(b"a\r", &mut out), cut(1));
        assert_eq!(
            Line::new(2).encode(b"abc", &mut out),
            Err(Error::PayloadTooLarge { len: 3, max: 2 })
        );
        assert!(out.is_empty());
        assert_eq!(Line::new(8).crlf().encode(b"a\r", &mut out), Ok(()));
        assert_eq!(out, b"a\r\r\n");
    }
}
