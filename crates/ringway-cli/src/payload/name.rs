//! Names of messages: run, connection or lane, and sequence number.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sequence (`u64`), lane (`u32`) and run (`u32`), little-endian.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 16;

/// The number of a run. Runs of one process have different numbers; those of two processes, which may
/// measure the same server, differ but for one chance in four thousand million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run(pub(crate) u32);

impl Run {
    /// A number that no other run has.
    pub(crate) fn fresh() -> Self {
        static FIRST: OnceLock<u32> = OnceLock::new();
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        let first = FIRST.get_or_init(|| RandomState::new().hash_one(0) as u32);
        Self(first.wrapping_add(BEGUN.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The name of one message; no two messages that are sent have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) run: Run,
    /// The connection, or the one of its lanes, that sends it.
    pub(crate) lane: u32,
    /// Its position there, from 0.
    pub(crate) sequence: u64,
}

impl Name {
    /// Returns the first bytes of the message with this name and `size` bytes in all; of a message shorter than the
    /// result only the first `size` bytes count.
    ///
    /// From 16 bytes on that is the whole name. Below, it is as much of its digest as fits.
    #[inline]
    pub(crate) fn header(self, size: usize) -> [u8; MESSAGE_HEADER_BYTES] {
        let mut header = [0; MESSAGE_HEADER_BYTES];
        if size < MESSAGE_HEADER_BYTES {
            let digest = self.digest();
            header[..8].copy_from_slice(&digest.to_le_bytes());
            header[8..].copy_from_slice(&mix(digest).to_le_bytes());
            return header;
        }
        header[..8].copy_from_slice(&self.sequence.to_le_bytes());
        header[8..12].copy_from_slice(&self.lane.to_le_bytes());
        header[12..].copy_from_slice(&self.run.0.to_le_bytes());
        header
    }

    /// Returns the name in 64 bits. All its factors are odd, so for any `n` the lowest `n` bits differ between two
    /// names with one part that differs by less than 2^n. So neighbours always differ, even in a message
    /// of one byte.
    #[inline]
    pub(super) fn digest(self) -> u64 {
        let sequence = self.sequence.wrapping_mul(SEQUENCE_FACTOR);
        let lane = u64::from(self.lane).wrapping_mul(LANE_FACTOR);
        let run = u64::from(self.run.0).wrapping_mul(RUN_FACTOR);
        sequence.wrapping_add(lane).wrapping_add(run)
    }
}

/// A bijection in which every bit of the input moves about half of the output's (SplitMix64's finisher).
pub(super) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Odd, and without a small multiple of one that is near a small multiple of another.
const SEQUENCE_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const LANE_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
const RUN_FACTOR: u64 = 0xa076_1d64_78bd_642f;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(run: u32, lane: u32, sequence: u64) -> Name {
        Name { run: Run(run), lane, sequence }
    }

    #[test]
    fn runs_have_numbers_of_their_own() {
        let (first, second) = (Run::fresh(), Run::fresh());
        assert_ne!(first, second);
    }

    #[test]
    fn one_byte_tells_256_neighbours_apart_and_two_bytes_65536() {
        for (size, distances) in [(1, 1..256), (2, 1..65_536), (4, 1..100_000)] {
            let first = name(7, 3, 1_000_000).header(size);
            for distance in distances {
                let others = [
                    name(7, 3, 1_000_000 + u64::from(distance)),
                    name(7, 3 + distance, 1_000_000),
                    name(7 + distance, 3, 1_000_000),
                ];
                for other in others {
                    assert_ne!(first[..size], other.header(size)[..size], "{other:?}");
                }
            }
        }
    }

    #[test]
    fn names_that_differ_in_all_parts_are_confused_as_seldom_as_the_bytes_allow() {
        for (size, most) in [(1, 600), (2, 8), (3, 0), (8, 0)] {
            let mine = name(7, 3, 50).header(size);
            let others = (0..100_000_u32).map(|i| name(8 + i % 13, 4 + i % 801, 51 + u64::from(i)));
            let same = others.filter(|other| other.header(size)[..size] == mine[..size]).count();
            assert!(same <= most, "{same} of 100,000 pass as another with {size} bytes");
        }
    }
}
