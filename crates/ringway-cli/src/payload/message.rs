//! Ping-pong messages: a header that names connection, sequence and length, and a body out of one shared
//! pattern, from an offset that differs between messages.
//!
//! Nothing is generated per message: a sender writes 16 bytes and borrows the rest, a receiver compares two
//! slices. Messages too short for the header consist of the first bytes of a mix of connection and sequence.

use super::mismatch::{Mismatch, first_difference};

/// Sequence (`u64`), connection (`u32`) and length of the whole message (`u32`), little-endian.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 16;

/// Pseudo-random bytes out of which every body is cut; as long as the largest body and all offsets need.
///
/// A copy of the handle costs nothing. The bytes live as long as the process: one run of the tool makes one
/// pattern, and all its threads read it.
#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    bytes: &'static [u8],
}

impl Pattern {
    /// A pattern for messages of up to `message_bytes_max` bytes.
    pub(crate) fn new(message_bytes_max: usize) -> Self {
        let words = (message_bytes_max + OFFSETS).div_ceil(8);
        let mut state = PATTERN_SEED;
        let bytes: Vec<u8> = (0..words)
            .flat_map(|_| {
                state = state.wrapping_add(GOLDEN);
                mix(state).to_le_bytes()
            })
            .collect();
        Self { bytes: Vec::leak(bytes) }
    }

    /// The first bytes of message `sequence` of `connection`, of `size` bytes in all; of a message shorter
    /// than the result only the first `size` bytes count.
    pub(crate) fn header(
        connection: u32,
        sequence: u64,
        size: usize,
    ) -> [u8; MESSAGE_HEADER_BYTES] {
        let mut header = [0; MESSAGE_HEADER_BYTES];
        if size < MESSAGE_HEADER_BYTES {
            let tag = mix(sequence.wrapping_mul(GOLDEN) ^ mix(u64::from(connection)));
            header[..8].copy_from_slice(&tag.to_le_bytes());
            header[8..].copy_from_slice(&mix(tag).to_le_bytes());
            return header;
        }
        let size = u32::try_from(size).expect("messages are bounded by limits::MESSAGE_BYTES_MAX");
        header[..8].copy_from_slice(&sequence.to_le_bytes());
        header[8..12].copy_from_slice(&connection.to_le_bytes());
        header[12..].copy_from_slice(&size.to_le_bytes());
        header
    }

    /// What follows the header in that message; empty if the message is no longer than the header.
    ///
    /// # Panics
    /// If `size` is more than this pattern was made for.
    pub(crate) fn body(self, connection: u32, sequence: u64, size: usize) -> &'static [u8] {
        let start = mix(sequence ^ (u64::from(connection) << 40)) as usize % OFFSETS;
        &self.bytes[start..][..size.saturating_sub(MESSAGE_HEADER_BYTES)]
    }

    /// The payload `sequence` of `lane` where there is no room for a header: `size` bytes that differ between
    /// neighbours, without a copy.
    ///
    /// # Panics
    /// If `size` is more than this pattern was made for.
    #[inline]
    pub(crate) fn bytes(self, lane: u32, sequence: u64, size: usize) -> &'static [u8] {
        self.body(lane, sequence, size + MESSAGE_HEADER_BYTES)
    }

    /// Appends that message, header and body, to `out`.
    pub(crate) fn write(self, connection: u32, sequence: u64, size: usize, out: &mut Vec<u8>) {
        let header = Self::header(connection, sequence, size);
        out.extend_from_slice(&header[..size.min(MESSAGE_HEADER_BYTES)]);
        out.extend_from_slice(self.body(connection, sequence, size));
    }
}

/// Compares what arrives, in pieces cut anywhere, with the one message that is due.
pub(crate) struct Verifier {
    pattern: Pattern,
    connection: u32,
    sequence: u64,
    size: usize,
    header: [u8; MESSAGE_HEADER_BYTES],
    body: &'static [u8],
    /// Bytes of the message that have arrived; at most `size`, and equal to it between messages.
    seen: usize,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes of the piece that belong to the message; the rest was not looked at.
    pub(crate) consumed: usize,
    /// Whether the message ended with them.
    pub(crate) complete: bool,
}

impl Verifier {
    /// A verifier that expects nothing yet.
    pub(crate) fn new(pattern: Pattern) -> Self {
        let header = [0; MESSAGE_HEADER_BYTES];
        Self { pattern, connection: 0, sequence: 0, size: 0, header, body: &[], seen: 0 }
    }

    /// Makes message `sequence` of `connection`, of `size` bytes, the one that is due.
    pub(crate) fn expect(&mut self, connection: u32, sequence: u64, size: usize) {
        debug_assert_eq!(self.seen, self.size, "the message before is still arriving");
        (self.connection, self.sequence, self.size) = (connection, sequence, size);
        self.header = Pattern::header(connection, sequence, size);
        self.body = self.pattern.body(connection, sequence, size);
        self.seen = 0;
    }

    /// Compares as much of `piece` as belongs to the message that is due.
    ///
    /// # Errors
    /// The first byte that differs.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Progress, Mismatch> {
        let consumed = piece.len().min(self.size - self.seen);
        let header_end = self.size.min(MESSAGE_HEADER_BYTES);
        let in_header = header_end.saturating_sub(self.seen).min(consumed);
        let (head, rest) = piece[..consumed].split_at(in_header);
        let header_from = self.seen.min(header_end);
        self.compare(&self.header[header_from..][..in_header], head, self.seen)?;
        let body_from = (self.seen + in_header).saturating_sub(MESSAGE_HEADER_BYTES);
        self.compare(&self.body[body_from..][..rest.len()], rest, self.seen + in_header)?;
        self.seen += consumed;
        Ok(Progress { consumed, complete: self.seen == self.size })
    }

    fn compare(&self, expected: &[u8], found: &[u8], offset: usize) -> Result<(), Mismatch> {
        match first_difference(expected, found) {
            None => Ok(()),
            Some(at) => Err(Mismatch {
                connection: self.connection,
                sequence: self.sequence,
                offset: offset + at,
                expected: expected[at],
                found: found[at],
            }),
        }
    }
}

/// Bodies start at this many different places: enough that neighbours differ, few enough that the pattern of
/// a 16 KiB message stays in a core's first-level cache.
const OFFSETS: usize = 4096;
const PATTERN_SEED: u64 = 0x5249_4e47_5741_5921;
/// 2^64 divided by the golden ratio, odd: successive multiples are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection in which every bit of the input moves about half of the output's (SplitMix64's finisher).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 9] = [1, 7, 8, 15, 16, 17, 24, 64, 200];

    fn message(connection: u32, sequence: u64, size: usize) -> (Pattern, Vec<u8>) {
        let pattern = Pattern::new(size);
        let mut bytes = Vec::new();
        pattern.write(connection, sequence, size, &mut bytes);
        assert_eq!(bytes.len(), size);
        (pattern, bytes)
    }

    fn verifier(pattern: Pattern, connection: u32, sequence: u64, size: usize) -> Verifier {
        let mut verifier = Verifier::new(pattern);
        verifier.expect(connection, sequence, size);
        verifier
    }

    #[test]
    fn pieces_may_be_cut_at_every_byte() {
        for size in SIZES {
            let (pattern, bytes) = message(3, 1 << 33, size);
            for cut in 0..=size {
                let mut verifier = verifier(pattern, 3, 1 << 33, size);
                let first = verifier.feed(&bytes[..cut]).expect("the message's own bytes");
                assert_eq!(first, Progress { consumed: cut, complete: cut == size });
                let second = verifier.feed(&bytes[cut..]).expect("the message's own bytes");
                assert_eq!(second, Progress { consumed: size - cut, complete: true });
            }
            let mut verifier = verifier(pattern, 3, 1 << 33, size);
            for (index, byte) in bytes.iter().enumerate() {
                let progress = verifier.feed(std::slice::from_ref(byte)).expect("one byte of it");
                assert_eq!(progress, Progress { consumed: 1, complete: index + 1 == size });
            }
        }
    }

    #[test]
    fn bytes_of_the_next_message_are_left() {
        let (pattern, mut bytes) = message(0, 0, 40);
        pattern.write(0, 1, 40, &mut bytes);
        let mut verifier = verifier(pattern, 0, 0, 40);
        assert_eq!(verifier.feed(&bytes), Ok(Progress { consumed: 40, complete: true }));
        verifier.expect(0, 1, 40);
        assert_eq!(verifier.feed(&bytes[40..]), Ok(Progress { consumed: 40, complete: true }));
    }

    #[test]
    fn any_flipped_byte_is_found_where_it_is() {
        for size in SIZES {
            let (pattern, bytes) = message(9, 5, size);
            for at in 0..size {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x10;
                let mismatch = verifier(pattern, 9, 5, size).feed(&bytes).expect_err("flipped");
                assert_eq!((mismatch.offset, mismatch.found), (at, bytes[at]));
                assert_eq!((mismatch.connection, mismatch.sequence), (9, 5));
            }
        }
    }

    #[test]
    fn a_message_of_another_connection_or_place_is_found() {
        // One byte cannot tell everything apart; from four on a collision would be a defect of the mix.
        for size in [4, 8, 15, 16, 17, 64] {
            let (pattern, bytes) = message(1, 7, size);
            for (connection, sequence) in [(2, 7), (1, 8), (1, 6), (7, 1), (0, 7)] {
                let result = verifier(pattern, connection, sequence, size).feed(&bytes);
                assert!(result.is_err(), "{size} bytes passed as {connection}, {sequence}");
            }
        }
    }

    #[test]
    fn bodies_of_neighbours_differ_even_without_their_headers() {
        let pattern = Pattern::new(64);
        for sequence in 0..1000 {
            let body = pattern.body(4, sequence, 64);
            assert_ne!(body, pattern.body(4, sequence + 1, 64), "sequence {sequence}");
        }
    }

    #[test]
    fn a_mismatch_reads_well() {
        let mismatch =
            Mismatch { connection: 4, sequence: 17, offset: 12, expected: 0x40, found: 0x41 };
        insta::assert_snapshot!(
            mismatch,
            @"payload 17 of connection 4 is wrong at byte 12: 0x41 instead of 0x40"
        );
    }
}
