//! The encodings of a length field: width and byte order.

use crate::limits::VARINT_LEN_MAX;

/// An encoding of a length field; see [`LengthField`](crate::LengthField).
///
/// Sealed: only this crate's marker types implement it.
pub trait Width: sealed::Encoding + Copy {}

/// The result of reading a length field.
pub enum Field {
    /// A whole field of `len` bytes.
    Value { value: u64, len: usize },
    /// At least this many bytes of the field are needed.
    NeedAtLeast(usize),
    /// A varint that is longer than allowed.
    TooLong,
}

pub(crate) mod sealed {
    use super::Field;

    pub trait Encoding {
        /// Length of the shortest field in bytes.
        const LEN_MIN: usize;
        /// Length of the longest field in bytes.
        const LEN_MAX: usize;

        /// The largest value that fits a field of `len` bytes.
        fn value_max(len: usize) -> u64;

        fn read(input: &[u8]) -> Field;

        /// Appends a field of exactly `len` bytes; `value` is at most `value_max(len)`.
        fn write(value: u64, len: usize, out: &mut Vec<u8>);
    }
}

macro_rules! fixed_widths {
    ($($name:ident, $int:ty, $from:ident, $to:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}

        impl Width for $name {}

        impl sealed::Encoding for $name {
            const LEN_MIN: usize = size_of::<$int>();
            const LEN_MAX: usize = size_of::<$int>();

            #[inline]
            fn value_max(_len: usize) -> u64 {
                u64::from(<$int>::MAX)
            }

            #[inline]
            fn read(input: &[u8]) -> Field {
                match input.first_chunk() {
                    Some(bytes) => {
                        Field::Value { value: u64::from(<$int>::$from(*bytes)), len: Self::LEN_MIN }
                    }
                    None => Field::NeedAtLeast(Self::LEN_MIN),
                }
            }

            #[inline]
            fn write(value: u64, _len: usize, out: &mut Vec<u8>) {
                debug_assert!(value <= u64::from(<$int>::MAX));
                out.extend_from_slice(&(value as $int).$to());
            }
        }
    )*};
}

fixed_widths! {
    U8, u8, from_be_bytes, to_be_bytes, "A length field of one byte.";
    U16Be, u16, from_be_bytes, to_be_bytes, "A length field of two bytes, big-endian.";
    U16Le, u16, from_le_bytes, to_le_bytes, "A length field of two bytes, little-endian.";
    U32Be, u32, from_be_bytes, to_be_bytes, "A length field of four bytes, big-endian.";
    U32Le, u32, from_le_bytes, to_le_bytes, "A length field of four bytes, little-endian.";
    U64Be, u64, from_be_bytes, to_be_bytes, "A length field of eight bytes, big-endian.";
    U64Le, u64, from_le_bytes, to_le_bytes, "A length field of eight bytes, little-endian.";
}

/// A length field of one to five bytes in unsigned LEB128, as protobuf and .NET write it: seven
/// bits a byte, lowest first, the top bit set on all bytes but the last.
///
/// Longer forms of the same value (`81 00` for 1) are accepted, because encoders that reserve
/// the field before they know the length write them; at most five bytes all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varint {}

impl Width for Varint {}

impl sealed::Encoding for Varint {
    const LEN_MIN: usize = 1;
    const LEN_MAX: usize = VARINT_LEN_MAX;

    fn value_max(len: usize) -> u64 {
        (1 << (7 * len)) - 1
    }

    #[inline]
    fn read(input: &[u8]) -> Field {
        let mut value = 0;
        for (index, byte) in input.iter().take(VARINT_LEN_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Field::Value { value, len: index + 1 };
            }
        }
        if input.len() < VARINT_LEN_MAX {
            Field::NeedAtLeast(input.len() + 1)
        } else {
            Field::TooLong
        }
    }

    fn write(value: u64, len: usize, out: &mut Vec<u8>) {
        debug_assert!(value <= Self::value_max(len));
        for index in 0..len {
            let more = if index + 1 < len { 0x80 } else { 0 };
            out.push((value >> (7 * index)) as u8 & 0x7f | more);
        }
    }
}
