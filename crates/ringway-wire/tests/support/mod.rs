//! A seeded generator, and a codec driven through a framer.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod document;

use ringway_wire::{Codec, Error, Framer};

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

/// Runs `test` with seeds 0 to `seeds`, or with that in `RINGWAY_SEED` alone, and says which
/// seed failed.
pub(crate) fn for_seeds(seeds: u64, test: impl Fn(&mut Random)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed; again with: RINGWAY_SEED={} cargo test -p ringway-wire", self.0);
            }
        }
    }
    let given = std::env::var("RINGWAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let range = given.map_or(0..seeds, |seed| seed..seed + 1);
    for seed in range {
        let _seed = Seed(seed);
        test(&mut Random::new(seed));
    }
}

/// The payloads that a framer finds in `pieces`, and the error at which it ends.
pub(crate) fn decode<C: Codec>(
    codec: C,
    pieces: &[&[u8]],
    payload: impl Fn(C::Item<'_>) -> Vec<u8>,
) -> (Vec<Vec<u8>>, Result<(), Error>) {
    let frame_len_max = codec.frame_len_max();
    let mut framer = Framer::new(codec);
    let mut frames = Vec::new();
    for piece in pieces {
        let before = frames.len();
        match framer.push(piece, |item| frames.push(payload(item))) {
            Ok(count) => assert_eq!(count, frames.len() - before),
            Err(error) => {
                assert_eq!(framer.push(b"more", |_| panic!("a frame")), Err(error.clone()));
                assert_eq!(framer.finish(), Err(error.clone()));
                assert_eq!((framer.buffered(), framer.capacity()), (0, 0));
                return (frames, Err(error));
            }
        }
        assert!(framer.buffered() < frame_len_max, "never a whole frame left over");
        assert!(framer.capacity() <= frame_len_max, "never more than the longest frame");
    }
    (frames, framer.finish())
}
