//! Huffman strings (RFC 7541, section 5.2), decoded nine bits at a time.

use super::codes::{CODES, EOS, LEN_MAX, LENGTHS, SORTED, SYMBOLS};
use crate::http2::Violation;

/// Number of bits in one table look-up. Letters, digits and most punctuation have shorter codes.
const SHORT_BITS: usize = 9;

/// Symbol and length of the code at the start of nine bits; length 0 means that the code is longer.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = short();

/// By code length: where the codes of that length end, left-aligned in 32 bits, and the difference
/// between a code and its index in [`SORTED`].
static LONG: [(u64, i64); LEN_MAX + 1] = long();

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let mut table = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let len = LENGTHS[symbol] as usize;
        if len <= SHORT_BITS {
            let first = (CODES[symbol] as usize) << (SHORT_BITS - len);
            let mut at = first;
            while at < first + (1 << (SHORT_BITS - len)) {
                table[at] = (symbol as u8, len as u8);
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

const fn long() -> [(u64, i64); LEN_MAX + 1] {
    let mut table = [(0, 0); LEN_MAX + 1];
    let mut at = 0;
    while at < SYMBOLS {
        let symbol = SORTED[at] as usize;
        let (len, code) = (LENGTHS[symbol] as usize, CODES[symbol]);
        table[len] = ((code as u64 + 1) << (32 - len), at as i64 - code as i64);
        at += 1;
    }
    table
}

/// Decodes the string in `input` and appends it to `out`.
///
/// # Errors
///
/// Fails when it contains EOS, or does not end in fewer than eight bits of the start of EOS.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
    // No code is shorter than five bits.
    out.reserve(input.len() * 8 / 5);
    let mut rest = input.iter();
    let (mut bits, mut count) = (0_u64, 0);
    loop {
        while count <= 56
            && let Some(&byte) = rest.next()
        {
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        let (mut symbol, mut len) = SHORT[(bits >> (64 - SHORT_BITS)) as usize];
        if len == 0 && count > SHORT_BITS {
            (symbol, len) = decode_long(bits >> 32)?;
        }
        if len == 0 || usize::from(len) > count {
            return check_padding(bits, count);
        }
        out.push(symbol);
        bits <<= len;
        count -= usize::from(len);
    }
}

fn decode_long(front: u64) -> Result<(u8, u8), Violation> {
    let mut len = SHORT_BITS + 1;
    while len < LEN_MAX && front >= LONG[len].0 {
        len += 1;
    }
    let code = (front >> (32 - len)) as i64;
    match SORTED[(code + LONG[len].1) as usize] {
        // The code is longer than the remaining bits, which are then checked as padding.
        EOS => Ok((0, u8::MAX)),
        symbol => Ok((symbol as u8, len as u8)),
    }
}

fn check_padding(bits: u64, count: usize) -> Result<(), Violation> {
    let ones = bits.leading_ones() as usize;
    if ones >= LEN_MAX && count >= LEN_MAX {
        return Err(Violation::HuffmanEos);
    }
    match count < 8 && ones >= count {
        true => Ok(()),
        false => Err(Violation::HuffmanPadding),
    }
}

/// Length of `string` as a Huffman string, in bytes.
pub(super) fn encoded_len(string: &[u8]) -> usize {
    let bits: usize = string.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `string` as a Huffman string to `out`.
pub(super) fn encode(string: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in string {
        let len = LENGTHS[usize::from(byte)];
        bits = bits << len | u64::from(CODES[usize::from(byte)]);
        count += len;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        let padding = 8 - count;
        out.push((bits << padding) as u8 | ((1 << padding) - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn every_pair_of_bytes_round_trips() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                let string = [first, second, b'0', first];
                let mut coded = Vec::new();
                encode(&string, &mut coded);
                assert_eq!(coded.len(), encoded_len(&string));
                assert_eq!(decoded(&coded), Ok(string.to_vec()), "{string:?}");
            }
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones() {
        assert_eq!(decoded(&[]), Ok(vec![]));
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        for wrong in [&[0b0001_1110][..], &[0b0001_1111, 0xff], &[0xff], &[0b0001_1000]] {
            assert_eq!(decoded(wrong), Err(Violation::HuffmanPadding), "{wrong:?}");
        }
        for eos in [&[0xff; 4][..], &[0xff; 9], &[0b0001_1111, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decoded(eos), Err(Violation::HuffmanEos), "{eos:?}");
        }
        // The start of a long code.
        assert_eq!(decoded(&[0xff, 0xc0]), Err(Violation::HuffmanPadding));
    }
}
