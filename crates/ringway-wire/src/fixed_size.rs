//! Frames of one fixed size.

use crate::{Codec, Decoded, Error};

/// A codec for frames of one fixed size, with nothing between them.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Codec, Decoded, Error, FixedSize};
///
/// let mut codec = FixedSize::new(4);
/// assert_eq!(codec.decode(b"abcdef")?, Decoded::Frame { item: &b"abcd"[..], consumed: 4 });
/// assert_eq!(codec.decode(b"ef")?, Decoded::NeedAtLeast(4));
///
/// let error = codec.encode(b"abc", &mut Vec::new()).unwrap_err();
/// assert_eq!(error, Error::WrongSize { len: 3, expected: 4 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedSize {
    /// Never 0.
    len: usize,
}

impl FixedSize {
    /// Creates a codec for frames of `frame_len` bytes.
    ///
    /// # Panics
    ///
    /// Panics when `frame_len` is 0.
    #[must_use]
    pub const fn new(frame_len: usize) -> Self {
        assert!(frame_len > 0, "a frame has at least one byte");
        Self { len: frame_len }
    }
}

impl Codec for FixedSize {
    type Item<'a> = &'a [u8];

    #[inline]
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<&'a [u8]>, Error> {
        Ok(match input.get(..self.len) {
            Some(item) => Decoded::Frame { item, consumed: self.len },
            None => Decoded::NeedAtLeast(self.len),
        })
    }

    /// Appends `payload`, which is the frame.
    ///
    /// # Errors
    ///
    /// Returns [`WrongSize`](Error::WrongSize) when `payload` is shorter or longer than a frame.
    /// `out` is then unchanged.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if payload.len() != self.len {
            return Err(Error::WrongSize { len: payload.len(), expected: self.len });
        }
        out.extend_from_slice(payload);
        Ok(())
    }

    fn frame_len_max(&self) -> usize {
        self.len
    }
}

/// Decodes `data` in frames of a size chosen by its first byte, whole and in pieces.
pub fn fuzz(data: &[u8]) {
    let Some((&[len, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let codec = FixedSize::new(usize::from(len).max(1));
    let frames = crate::cut::same_when_cut(|| codec, <[u8]>::to_vec, stream, cut);
    assert_eq!(frames.len(), stream.len() / codec.len);
    assert!(stream.starts_with(&frames.concat()));
}
