//! A seeded generator.

/// Xorshift64*: small, fast, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number from 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize, alphabet: &[u8]) -> Vec<u8> {
        (0..len).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }

    /// Cuts `stream` into pieces of up to `piece_len_max` bytes, empty ones among them.
    pub(crate) fn pieces<'a>(
        &mut self,
        mut stream: &'a [u8],
        piece_len_max: usize,
    ) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !stream.is_empty() {
            let (piece, rest) = stream.split_at(self.below(piece_len_max + 1).min(stream.len()));
            pieces.push(piece);
            stream = rest;
        }
        pieces
    }
}
