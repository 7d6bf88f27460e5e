//! Variable-length integers in metadata: LEB128, seven bits a byte, low bits first.

/// Takes a number off the front of `bytes`; `None` if it is cut off or exceeds 64 bits.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..LEN_MAX {
        let byte = *bytes.get(at)?;
        let group = u64::from(byte & 0x7f);
        if at == LEN_MAX - 1 && group > 1 {
            return None;
        }
        value |= group << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Reads a number that must use all of `bytes`.
pub(super) fn whole(mut bytes: &[u8]) -> Option<u64> {
    take(&mut bytes).filter(|_| bytes.is_empty())
}

/// Appends a number to `out` in its shortest form.
pub(super) fn push(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Number of bytes that [`push`] appends.
pub(super) const fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Maps signed numbers to unsigned ones such that values near zero stay small: 0, −1, 1, −2 …
pub(super) const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The inverse of [`zigzag`].
pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Longest encoding: ten groups of seven bits hold 64 bits.
const LEN_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::{len, push, take, unzigzag, whole, zigzag};

    #[test]
    fn numbers_round_trip_in_their_shortest_form() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]);
        for value in edges.chain([u64::MAX]) {
            let mut bytes = vec![];
            push(value, &mut bytes);
            assert_eq!(bytes.len(), len(value), "{value}");
            assert_eq!(whole(&bytes), Some(value));
            for cut in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..cut]), None);
            }
            bytes.push(0);
            assert_eq!(whole(&bytes), None, "a byte too many");
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(value), &[0][..]));
        }
    }

    #[test]
    fn padding_is_accepted_and_more_than_64_bits_rejected() {
        assert_eq!(whole(b"\x80\x80\x00"), Some(0), "padding is harmless");
        assert_eq!(whole(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), None);
        assert_eq!(whole(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), None);
    }

    #[test]
    fn signed_numbers_round_trip() {
        for (value, coded) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1)] {
            assert_eq!((zigzag(value), unzigzag(coded)), (coded, value));
        }
        assert_eq!((zigzag(i64::MIN), unzigzag(u64::MAX)), (u64::MAX, i64::MIN));
    }
}
