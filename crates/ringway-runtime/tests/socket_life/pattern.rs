//! Bytes that name their origin: every eight of them are a mix of their sender and their position.

use crate::random::{STEP, STEP_INVERSE, mix, unmix};

/// The sender of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source(u64);

impl Source {
    /// The bytes that `end` of a connection sends in a run.
    pub(crate) fn new(run: u32, number: u32, end: usize) -> Self {
        Self(mix(u64::from(run) << 32 ^ mix(u64::from(number) << 1 | end as u64)))
    }

    /// The bytes that a datagram socket sends.
    pub(crate) fn of_datagrams(run: u32, number: u32) -> Self {
        Self::new(run, number, 1 << 33)
    }

    /// The bytes that begin at position `from`.
    pub(crate) fn bytes(self, from: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 2 * WORD);
        let words = from / WORD as u64..(from + len as u64).div_ceil(WORD as u64);
        words.for_each(|index| bytes.extend_from_slice(&self.word(index)));
        bytes.drain(..from as usize % WORD);
        bytes.truncate(len);
        bytes
    }

    /// The position at which `found` first differs from the bytes that begin at `from`.
    pub(crate) fn first_wrong(self, from: u64, found: &[u8]) -> Option<usize> {
        let first = WORD - from as usize % WORD;
        let (mut at, mut index) = (0, from / WORD as u64);
        while at < found.len() {
            let word = self.word(index);
            let due = if at == 0 { &word[WORD - first..] } else { &word[..] };
            let len = due.len().min(found.len() - at);
            if due[..len] != found[at..at + len] {
                return (at..at + len).find(|&place| due[place - at] != found[place]);
            }
            (at, index) = (at + len, index + 1);
        }
        None
    }

    /// The position of `found` among these bytes, if it is a piece of them.
    pub(crate) fn place_of(self, found: &[u8]) -> Option<u64> {
        (0..WORD).find_map(|skipped| {
            let word = found.get(skipped..skipped + WORD)?;
            let word = u64::from_le_bytes(word.try_into().expect("as long as a word"));
            let index = unmix(word).wrapping_sub(self.0).wrapping_mul(STEP_INVERSE);
            let place = index.checked_mul(WORD as u64)?.checked_sub(skipped as u64)?;
            (place < PLACES_MAX).then_some(place)
        })
    }

    fn word(self, index: u64) -> [u8; WORD] {
        mix(self.0.wrapping_add(index.wrapping_mul(STEP))).to_le_bytes()
    }
}

const WORD: usize = 8;

/// More bytes than any connection sends.
const PLACES_MAX: u64 = 1 << 40;

#[test]
fn bytes_tell_their_place() {
    let (mine, other) = (Source::new(1, 7, 0), Source::new(1, 7, 1));
    for from in [0, 1, 7, 8, 1_000_003] {
        for len in [0, 1, 7, 8, 9, 40] {
            let mut bytes = mine.bytes(from, len);
            assert_eq!(bytes, mine.bytes(from - from % 3, len + 3)[(from % 3) as usize..][..len]);
            assert_eq!(mine.first_wrong(from, &bytes), None);
            for at in 0..len {
                bytes[at] ^= 4;
                assert_eq!(mine.first_wrong(from, &bytes), Some(at));
                bytes[at] ^= 4;
            }
        }
        let bytes = mine.bytes(from, 40);
        assert_eq!((mine.place_of(&bytes), other.place_of(&bytes)), (Some(from), None));
        assert!(other.first_wrong(from, &bytes).is_some());
    }
}
