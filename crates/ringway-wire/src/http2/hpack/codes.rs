//! The Huffman code (RFC 7541, appendix B), computed from the lengths of its codes.

/// Number of symbols: each byte, and the end of a string.
pub(super) const SYMBOLS: usize = 257;

/// The end-of-string symbol. It must not occur in a string, and strings are padded with its first
/// bits.
pub(super) const EOS: u16 = 256;

/// Length of the longest code in bits.
pub(super) const LEN_MAX: usize = 30;

/// Length of the code of each symbol, in bits.
#[rustfmt::skip]
pub(super) const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Symbols in the order of their codes. The code is canonical: shorter codes come first, and codes
/// of one length are in the order of their symbols.
pub(super) const SORTED: [u16; SYMBOLS] = sorted();

/// The code of each symbol, in its lowest bits.
pub(super) const CODES: [u32; SYMBOLS] = codes();

const fn sorted() -> [u16; SYMBOLS] {
    let mut sorted = [0; SYMBOLS];
    let (mut count, mut len) = (0, 0);
    while len <= LEN_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == len {
                sorted[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    sorted
}

const fn codes() -> [u32; SYMBOLS] {
    let mut codes = [0; SYMBOLS];
    let (mut code, mut len, mut at) = (0, LENGTHS[SORTED[0] as usize], 0);
    while at < SYMBOLS {
        let symbol = SORTED[at] as usize;
        code <<= LENGTHS[symbol] - len;
        len = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
        at += 1;
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::{CODES, EOS};

    #[test]
    fn codes_match_the_appendix() {
        let codes = [
            (usize::from(b'0'), 0x0),
            (usize::from(b'a'), 0x3),
            (usize::from(b'\\'), 0x7fff0),
            (usize::from(b'~'), 0x1ffd),
            (0, 0x1ff8),
            (10, 0x3fff_fffc),
            (255, 0x3ff_ffee),
            (usize::from(EOS), 0x3fff_ffff),
        ];
        for (symbol, code) in codes {
            assert_eq!(CODES[symbol], code, "symbol {symbol}");
        }
    }
}
