//! Frames with a length field.

use std::marker::PhantomData;

use crate::limits::FRAME_LEN_MAX_DEFAULT;
use crate::width::{Field, U8, U16Be, U16Le, U32Be, U32Le, U64Be, U64Le, Varint, Width};
use crate::{Codec, Decoded, Error};

/// A codec for frames with a length field: `header · length · payload`.
///
/// Start from the form of the field ([`u32_le`](LengthField::u32_le) and its siblings); by
/// default there is no header, the length counts the payload, and a frame has at most
/// [`FRAME_LEN_MAX_DEFAULT`](crate::FRAME_LEN_MAX_DEFAULT) bytes.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Codec, Decoded, Error, LengthField};
///
/// // Two bytes of header, then a length that counts the whole frame.
/// let mut codec = LengthField::u32_be().offset(2).counts_whole_frame().frame_max(64);
/// let mut bytes = Vec::new();
/// codec.encode_with_header(b"v1", b"hello", &mut bytes)?;
/// assert_eq!(bytes, b"v1\x00\x00\x00\x0bhello");
///
/// let Decoded::Frame { item, .. } = codec.decode(&bytes)? else { panic!("whole frame") };
/// assert_eq!((item.header, item.payload), (&b"v1"[..], &b"hello"[..]));
///
/// // A peer that announces more than the limit is detected by the length alone.
/// let error = codec.decode(b"v1\x00\x01\x00\x00").unwrap_err();
/// assert_eq!(error, Error::FrameTooLarge { len: 0x1_0000, max: 64 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthField<W: Width> {
    offset: usize,
    /// The number to add to the field's value to get the payload's length. It stays within ±2^33
    /// (an `i32` of the user, minus a `u16` offset and the field), so it cannot overflow.
    adjustment: i64,
    counts_whole_frame: bool,
    max: usize,
    width: PhantomData<W>,
}

/// One frame of a [`LengthField`] codec, borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthFrame<'a> {
    /// The bytes in front of the length field; empty when its offset is 0.
    pub header: &'a [u8],
    /// The bytes that the length counts, without header and field.
    pub payload: &'a [u8],
}

macro_rules! constructors {
    ($($name:ident, $width:ty, $what:literal;)*) => {$(
        impl LengthField<$width> {
            #[doc = concat!("Frames whose length is ", $what, ".")]
            #[must_use]
            pub const fn $name() -> Self {
                Self::new()
            }
        }
    )*};
}

constructors! {
    u8, U8, "one byte";
    u16_be, U16Be, "two bytes, big-endian";
    u16_le, U16Le, "two bytes, little-endian";
    u32_be, U32Be, "four bytes, big-endian";
    u32_le, U32Le, "four bytes, little-endian";
    u64_be, U64Be, "eight bytes, big-endian";
    u64_le, U64Le, "eight bytes, little-endian";
    varint, Varint, "one to five bytes of LEB128; see [`Varint`]";
}

impl<W: Width> LengthField<W> {
    const fn new() -> Self {
        Self {
            offset: 0,
            adjustment: 0,
            counts_whole_frame: false,
            max: FRAME_LEN_MAX_DEFAULT,
            width: PhantomData,
        }
    }

    /// Sets the length of the header before the length field, 0 by default.
    #[must_use]
    pub const fn offset(mut self, header_len: u16) -> Self {
        self.offset = header_len as usize;
        self
    }

    /// Makes the length count header, length field and payload instead of the payload alone.
    #[must_use]
    pub const fn counts_whole_frame(mut self) -> Self {
        self.counts_whole_frame = true;
        self
    }

    /// Sets a number that is added to every received length and subtracted from every sent one: 5
    /// if five more bytes follow the payload that the length counts, -2 if the length also counts
    /// two bytes of the header.
    #[must_use]
    pub const fn adjustment(mut self, bytes: i32) -> Self {
        self.adjustment = bytes as i64;
        self
    }

    /// Sets the longest frame accepted and sent, in bytes, header and length field included.
    ///
    /// A limit below the length of header and field is raised to that: only empty payloads pass.
    #[must_use]
    pub const fn frame_max(mut self, bytes: usize) -> Self {
        self.max = bytes;
        self
    }

    /// Appends `header`, the length and `payload` to `out`.
    ///
    /// # Errors
    ///
    /// Returns [`WrongHeaderSize`](Error::WrongHeaderSize) when `header` is not as long as the
    /// offset, [`PayloadTooLarge`](Error::PayloadTooLarge) when the frame exceeds its limit or the
    /// length exceeds its field, and [`PayloadTooSmall`](Error::PayloadTooSmall) when an adjustment
    /// would make the length negative. `out` is then unchanged.
    pub fn encode_with_header(
        &self,
        header: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if header.len() != self.offset {
            return Err(Error::WrongHeaderSize { len: header.len(), expected: self.offset });
        }
        let (value, field_len) = self.field_for(payload.len())?;
        out.reserve(self.offset + field_len + payload.len());
        out.extend_from_slice(header);
        W::write(value, field_len, out);
        out.extend_from_slice(payload);
        Ok(())
    }

    /// The value and length of the field for a payload. The shortest field is chosen that can hold
    /// the value, which itself includes the field's length if the length counts the whole frame.
    fn field_for(&self, payload_len: usize) -> Result<(u64, usize), Error> {
        let mut error = Error::PayloadTooLarge { len: payload_len, max: 0 };
        for field_len in W::LEN_MIN..=W::LEN_MAX {
            let bias = self.bias(self.offset + field_len);
            let max = self.payload_len_max(field_len);
            error = match (payload_len as u64).checked_add_signed(-bias) {
                None => {
                    Error::PayloadTooSmall { len: payload_len, min: bias.unsigned_abs() as usize }
                }
                Some(value) if value <= W::value_max(field_len) && payload_len <= max => {
                    return Ok((value, field_len));
                }
                Some(_) => Error::PayloadTooLarge { len: payload_len, max },
            };
        }
        Err(error)
    }

    /// The longest payload that fits the frame limit and a field of `field_len` bytes.
    fn payload_len_max(&self, field_len: usize) -> usize {
        let prefix_len = self.offset + field_len;
        let countable = W::value_max(field_len).saturating_add_signed(self.bias(prefix_len));
        let room = self.max.saturating_sub(prefix_len);
        usize::try_from(countable).map_or(room, |countable| countable.min(room))
    }

    /// The number to add to a field's value to get the payload's length.
    #[inline]
    fn bias(&self, prefix_len: usize) -> i64 {
        let counted = if self.counts_whole_frame { prefix_len as i64 } else { 0 };
        self.adjustment - counted
    }

    #[cold]
    fn bad_length(&self, value: u64, prefix_len: usize) -> Error {
        let bias = self.bias(prefix_len);
        if bias < 0 && value < bias.unsigned_abs() {
            return Error::LengthUnderflow { value, min: bias.unsigned_abs() };
        }
        let len = value.saturating_add_signed(bias).saturating_add(prefix_len as u64);
        Error::FrameTooLarge { len, max: self.max.max(prefix_len) }
    }
}

impl<W: Width> Codec for LengthField<W> {
    type Item<'a> = LengthFrame<'a>;

    #[inline]
    fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<LengthFrame<'a>>, Error> {
        let Some((header, rest)) = input.split_at_checked(self.offset) else {
            return Ok(Decoded::NeedAtLeast(self.offset + W::LEN_MIN));
        };
        let (value, field_len) = match W::read(rest) {
            Field::Value { value, len } => (value, len),
            Field::NeedAtLeast(len) => return Ok(Decoded::NeedAtLeast(self.offset + len)),
            Field::TooLong => return Err(Error::VarintTooLong { max: W::LEN_MAX }),
        };
        let prefix_len = self.offset + field_len;
        let room = self.max.saturating_sub(prefix_len) as u64;
        let payload_len = match value.checked_add_signed(self.bias(prefix_len)) {
            Some(len) if len <= room => len as usize,
            _ => return Err(self.bad_length(value, prefix_len)),
        };
        let consumed = prefix_len + payload_len;
        match input.get(prefix_len..consumed) {
            Some(payload) => Ok(Decoded::Frame { item: LengthFrame { header, payload }, consumed }),
            None => Ok(Decoded::NeedAtLeast(consumed)),
        }
    }

    /// Appends the frame with `payload`, for codecs without a header.
    ///
    /// # Errors
    ///
    /// Fails as [`encode_with_header`](Self::encode_with_header) with an empty header does.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.encode_with_header(&[], payload, out)
    }

    fn frame_len_max(&self) -> usize {
        self.max.max(self.offset + W::LEN_MAX)
    }
}

/// Decodes `data` with a codec chosen by its first bytes, whole and in pieces.
pub fn fuzz(data: &[u8]) {
    let Some((&[form, offset, adjustment, max, cut], stream)) = data.split_first_chunk() else {
        return;
    };
    let shape = Shape { offset, adjustment, max, whole_frame: form & 0x80 != 0 };
    match form & 7 {
        0 => shape.check(LengthField::u8(), stream, cut),
        1 => shape.check(LengthField::u16_be(), stream, cut),
        2 => shape.check(LengthField::u16_le(), stream, cut),
        3 => shape.check(LengthField::u32_be(), stream, cut),
        4 => shape.check(LengthField::u32_le(), stream, cut),
        5 => shape.check(LengthField::u64_be(), stream, cut),
        6 => shape.check(LengthField::u64_le(), stream, cut),
        _ => shape.check(LengthField::varint(), stream, cut),
    }
}

struct Shape {
    offset: u8,
    adjustment: u8,
    max: u8,
    whole_frame: bool,
}

impl Shape {
    fn check<W: Width>(&self, codec: LengthField<W>, stream: &[u8], cut: u8) {
        let mut codec = codec
            .offset(u16::from(self.offset % 8))
            .adjustment(i32::from(self.adjustment as i8))
            .frame_max(usize::from(self.max));
        if self.whole_frame {
            codec = codec.counts_whole_frame();
        }
        let own = |frame: LengthFrame<'_>| (frame.header.to_vec(), frame.payload.to_vec());
        let frames = crate::cut::same_when_cut(|| codec, own, stream, cut);
        for (header, payload) in frames {
            let mut bytes = Vec::new();
            codec.encode_with_header(&header, &payload, &mut bytes).expect("decoded, so encodable");
            let Ok(Decoded::Frame { item, consumed }) = codec.decode(&bytes) else {
                panic!("an encoded frame decodes");
            };
            assert_eq!((own(item), consumed), ((header, payload), bytes.len()));
        }
    }
}
