//! Integers with a prefix (RFC 7541, section 5.1).

use crate::http2::Violation;

/// Most bytes after the prefix of an integer: 28 bits, far more than any length or index needs.
const MORE_MAX: usize = 4;

/// Decodes an integer whose first byte had `prefix` in its lowest bits, and takes the rest off
/// `input`.
///
/// # Errors
///
/// Fails when it is cut off, or has more than 28 bits after its prefix.
#[inline]
pub(super) fn decode(prefix: u8, mask: u8, input: &mut &[u8]) -> Result<usize, Violation> {
    let prefix = prefix & mask;
    if prefix < mask { Ok(usize::from(prefix)) } else { decode_more(mask, input) }
}

fn decode_more(mask: u8, input: &mut &[u8]) -> Result<usize, Violation> {
    let mut value = usize::from(mask);
    for at in 0..MORE_MAX {
        let (&byte, rest) = input.split_first().ok_or(Violation::BlockTruncated)?;
        *input = rest;
        value += usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Violation::IntegerTooLarge)
}

/// Appends `value` with a prefix in the bits of `mask` and `form` in the bits above.
#[inline]
pub(super) fn encode(form: u8, mask: u8, value: usize, out: &mut Vec<u8>) {
    if value < usize::from(mask) {
        out.push(form | value as u8);
        return;
    }
    out.push(form | mask);
    let mut rest = value - usize::from(mask);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_appendix_c_1_round_trip() {
        for (value, mask, bytes) in
            [(10, 0x1f, &[0b01010][..]), (1337, 0x1f, &[31, 154, 10]), (42, 0xff, &[42])]
        {
            let mut out = Vec::new();
            encode(0, mask, value, &mut out);
            assert_eq!(out, bytes);
            let (&first, mut rest) = out.split_first().expect("a byte");
            assert_eq!(decode(first, mask, &mut rest), Ok(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn integers_that_are_cut_off_or_too_large_are_rejected() {
        let mut largest = Vec::new();
        encode(0, 0x7f, 0x7f + (1 << 28) - 1, &mut largest);
        assert_eq!(decode(largest[0], 0x7f, &mut &largest[1..]), Ok(0x7f + (1 << 28) - 1));
        let too_large = decode(0x7f, 0x7f, &mut &[0x80, 0x80, 0x80, 0x80, 1][..]);
        assert_eq!(too_large, Err(Violation::IntegerTooLarge));
        let cut = decode(0x7f, 0x7f, &mut &[0x80, 0x80][..]);
        assert_eq!(cut, Err(Violation::BlockTruncated));
    }
}
