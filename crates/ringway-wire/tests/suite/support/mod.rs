//! A seeded generator, and a codec driven through a framer.

pub(crate) mod allocations;
pub(crate) mod alone;
pub(crate) mod by_hand;
pub(crate) mod changes;
pub(crate) mod document;
pub(crate) mod grpc;
pub(crate) mod grpc_sessions;
pub(crate) mod http2;
pub(crate) mod mutation;
pub(crate) mod pair;
pub(crate) mod path;
mod random;
pub(crate) mod raw;

pub(crate) use random::Random;

use allocations::allocations;
use ringway_wire::{Codec, Error, Framer};

/// Runs `test` with seeds 0 to `seeds`, or only with that in `RINGWAY_SEED`, and names the
/// seed that failed.
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

/// The allocations of `work`, which a test calls in a process of its own. The thread that runs the tests allocates
/// as well now and then, so the least of several measurements counts.
pub(crate) fn allocations_of(mut work: impl FnMut()) -> usize {
    let mut counted = || {
        let before = allocations();
        work();
        allocations() - before
    };
    (0..4).map(|_| counted()).min().expect("measured")
}
