//! Messages: the header is the message's name, and the body is cut from one shared pattern at an offset that
//! depends on the name.
//!
//! Nothing is generated per message: a sender writes 16 bytes and borrows the rest, and a receiver compares two
//! slices. A message shorter than the header has the first bytes of its name's digest instead.

use bytes::BytesMut;

use super::mismatch::{Mismatch, first_difference};
use super::name::{MESSAGE_HEADER_BYTES, Name, Run, mix};

/// Pseudo-random bytes from which every body is cut, long enough for the largest body at all offsets.
///
/// Copying the handle costs nothing. The bytes live as long as the process: a run of the tool makes one
/// pattern for all its threads.
#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    bytes: &'static [u8],
}

/// All messages of one run.
#[derive(Clone, Copy)]
pub(crate) struct Series {
    pattern: Pattern,
    run: Run,
}

/// The next expected message.
pub(crate) trait Due {
    fn name(&self) -> Name;

    /// Length of the message in bytes.
    fn len(&self) -> usize;

    /// Whether `found` equals it in every byte.
    fn is(&self, found: &[u8]) -> bool;

    /// Returns the position of the first byte of `found` that differs, or the shorter length if one begins with the other.
    fn difference(&self, found: &[u8]) -> usize;
}

/// One message, in two pieces.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    name: Name,
    size: usize,
    header: [u8; MESSAGE_HEADER_BYTES],
    /// Offset of the body in the pattern.
    start: usize,
    body: &'static [u8],
}

/// A piece of the pattern without a header.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    name: Name,
    bytes: &'static [u8],
}

impl Pattern {
    /// Makes a pattern for messages of up to `message_bytes_max` bytes.
    pub(crate) fn new(message_bytes_max: usize) -> Self {
        let words = (message_bytes_max + OFFSETS.max(WINDOWS)).div_ceil(8);
        let mut state = PATTERN_SEED;
        let bytes: Vec<u8> = (0..words)
            .flat_map(|_| {
                state = state.wrapping_add(PATTERN_STEP);
                mix(state).to_le_bytes()
            })
            .collect();
        Self { bytes: Vec::leak(bytes) }
    }

    /// The messages of a run.
    pub(crate) fn of_run(self, run: Run) -> Series {
        Series { pattern: self, run }
    }

    /// Returns all bytes.
    pub(super) fn bytes(self) -> &'static [u8] {
        self.bytes
    }
}

impl Series {
    pub(crate) fn pattern(self) -> Pattern {
        self.pattern
    }

    /// Returns the run and connection of the messages.
    pub(crate) fn run(self) -> Run {
        self.run
    }

    /// Returns the message `sequence` of `lane` with `size` bytes.
    ///
    /// # Panics
    /// Panics if `size` exceeds the pattern's largest message.
    #[inline]
    pub(crate) fn message(self, lane: u32, sequence: u64, size: usize) -> Message {
        let name = Name { run: self.run, lane, sequence };
        let start = name.digest() as usize % OFFSETS;
        let body = &self.pattern.bytes[start..][..size.saturating_sub(MESSAGE_HEADER_BYTES)];
        Message { name, size, header: name.header(size), start, body }
    }

    /// The message `sequence` of a stream, of `size` bytes, where messages come in order and one that costs its
    /// sender nothing is wanted.
    ///
    /// # Panics
    /// If `size` is more than the pattern was made for.
    #[inline]
    pub(crate) fn window(self, lane: u32, sequence: u64, size: usize) -> Window {
        let name = Name { run: self.run, lane, sequence };
        let start = name.digest() as usize % WINDOWS;
        Window { name, bytes: &self.pattern.bytes[start..][..size] }
    }
}

impl Message {
    /// Its first bytes.
    #[inline]
    pub(crate) fn header(&self) -> &[u8] {
        &self.header[..self.size.min(MESSAGE_HEADER_BYTES)]
    }

    /// The bytes after the header; empty if the message is no longer than that.
    #[inline]
    pub(crate) fn body(&self) -> &'static [u8] {
        self.body
    }

    /// Offset of the body in the pattern.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Appends it to `out`.
    #[inline]
    pub(crate) fn append_to(&self, out: &mut BytesMut) {
        if self.size >= MESSAGE_HEADER_BYTES {
            out.extend_from_slice(&self.header);
            out.extend_from_slice(self.body);
        } else {
            out.extend_from_slice(self.header());
        }
    }
}

impl Due for Message {
    fn name(&self) -> Name {
        self.name
    }

    #[inline]
    fn len(&self) -> usize {
        self.size
    }

    #[inline]
    fn is(&self, found: &[u8]) -> bool {
        match found.split_first_chunk() {
            Some((header, body)) => {
                found.len() == self.size && *header == self.header && *body == *self.body
            }
            None => *found == *self.header(),
        }
    }

    #[cold]
    fn difference(&self, found: &[u8]) -> usize {
        let due = self.header().iter().chain(self.body);
        due.zip(found).position(|(due, found)| due != found).unwrap_or(self.size.min(found.len()))
    }
}

impl Window {
    #[inline]
    pub(crate) fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}

impl Due for Window {
    fn name(&self) -> Name {
        self.name
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn is(&self, found: &[u8]) -> bool {
        self.bytes == found
    }

    #[cold]
    fn difference(&self, found: &[u8]) -> usize {
        let at = self.bytes.iter().zip(found).position(|(due, found)| due != found);
        at.unwrap_or(self.bytes.len().min(found.len()))
    }
}

/// Compares what arrives, in pieces cut anywhere, with the one message that is due.
pub(crate) struct Verifier {
    message: Message,
    /// Bytes of the message that have arrived; all of them between messages.
    seen: usize,
}

/// The result of checking one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes of the piece that belong to the message; the rest was not looked at.
    pub(crate) consumed: usize,
    /// Whether the message ended with them.
    pub(crate) complete: bool,
}

impl Verifier {
    /// A verifier that expects nothing yet.
    pub(crate) fn new(series: Series) -> Self {
        Self { message: series.message(0, 0, 0), seen: 0 }
    }

    /// Makes `message` the one that is due.
    #[inline]
    pub(crate) fn expect(&mut self, message: Message) {
        debug_assert_eq!(self.seen, self.message.size, "the message before is still arriving");
        (self.message, self.seen) = (message, 0);
    }

    /// Compares as much of `piece` as belongs to the message that is due.
    ///
    /// # Errors
    /// The first byte that differs.
    #[inline]
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Piece, Mismatch> {
        let Message { size, header, body, .. } = &self.message;
        let consumed = piece.len().min(size - self.seen);
        let header_end = (*size).min(MESSAGE_HEADER_BYTES);
        let in_header = header_end.saturating_sub(self.seen).min(consumed);
        let (head, rest) = piece[..consumed].split_at(in_header);
        let header_from = self.seen.min(header_end);
        self.compare(&header[header_from..][..in_header], head, self.seen)?;
        let body_from = (self.seen + in_header).saturating_sub(MESSAGE_HEADER_BYTES);
        self.compare(&body[body_from..][..rest.len()], rest, self.seen + in_header)?;
        self.seen += consumed;
        Ok(Piece { consumed, complete: self.seen == self.message.size })
    }

    fn compare(&self, expected: &[u8], found: &[u8], offset: usize) -> Result<(), Mismatch> {
        match first_difference(expected, found) {
            None => Ok(()),
            Some(at) => Err(Mismatch {
                connection: self.message.name.lane,
                sequence: self.message.name.sequence,
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
/// Windows start at this many: as many as stay in that cache where messages are small.
const WINDOWS: usize = 16 << 10;
const PATTERN_SEED: u64 = 0x5249_4e47_5741_5921;
/// 2^64 divided by the golden ratio, odd: successive multiples are spread evenly.
const PATTERN_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 9] = [1, 7, 8, 15, 16, 17, 24, 64, 200];

    fn series(size: usize) -> Series {
        Pattern::new(size).of_run(Run(11))
    }

    fn bytes(message: &Message) -> Vec<u8> {
        let bytes = [message.header(), message.body()].concat();
        assert_eq!(bytes.len(), message.len());
        bytes
    }

    fn verifier(series: Series, message: Message) -> Verifier {
        let mut verifier = Verifier::new(series);
        verifier.expect(message);
        verifier
    }

    #[test]
    fn pieces_may_be_cut_at_every_byte() {
        for size in SIZES {
            let series = series(size);
            let message = series.message(3, 1 << 33, size);
            let bytes = bytes(&message);
            assert!(message.is(&bytes));
            for cut in 0..=size {
                let mut verifier = verifier(series, message);
                let first = verifier.feed(&bytes[..cut]).expect("the message's own bytes");
                assert_eq!(first, Piece { consumed: cut, complete: cut == size });
                let second = verifier.feed(&bytes[cut..]).expect("the message's own bytes");
                assert_eq!(second, Piece { consumed: size - cut, complete: true });
            }
            let mut verifier = verifier(series, message);
            for (index, byte) in bytes.iter().enumerate() {
                let progress = verifier.feed(std::slice::from_ref(byte)).expect("one byte of it");
                assert_eq!(progress, Piece { consumed: 1, complete: index + 1 == size });
            }
        }
    }

    #[test]
    fn bytes_of_the_next_message_are_left() {
        let series = series(40);
        let (first, second) = (series.message(0, 0, 40), series.message(0, 1, 40));
        let both = [bytes(&first), bytes(&second)].concat();
        let mut verifier = verifier(series, first);
        assert_eq!(verifier.feed(&both), Ok(Piece { consumed: 40, complete: true }));
        verifier.expect(second);
        assert_eq!(verifier.feed(&both[40..]), Ok(Piece { consumed: 40, complete: true }));
    }

    #[test]
    fn any_flipped_byte_is_found_where_it_is() {
        for size in SIZES {
            let series = series(size);
            let message = series.message(9, 5, size);
            for at in 0..size {
                let mut bytes = bytes(&message);
                bytes[at] ^= 0x10;
                assert!(!message.is(&bytes));
                assert_eq!(message.difference(&bytes), at);
                let mismatch = verifier(series, message).feed(&bytes).expect_err("flipped");
                assert_eq!((mismatch.offset, mismatch.found), (at, bytes[at]));
                assert_eq!((mismatch.connection, mismatch.sequence), (9, 5));
            }
        }
    }

    #[test]
    fn more_or_fewer_bytes_are_another_message() {
        for size in SIZES {
            let message = series(size).message(9, 5, size);
            let bytes = bytes(&message);
            assert!(!message.is(&bytes[..size - 1]));
            assert_eq!(message.difference(&bytes[..size - 1]), size - 1);
            let longer = [&bytes[..], &[0]].concat();
            assert!(!message.is(&longer));
            assert_eq!(message.difference(&longer), size);
        }
    }

    /// What a mix-up of two replies would put in place of the message: that of another request, connection or
    /// run. One byte is enough, as each differs from it in one part of its name only.
    #[test]
    fn a_message_of_another_request_connection_or_run_is_found() {
        for size in [1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 64] {
            let pattern = Pattern::new(size);
            let series = pattern.of_run(Run(11));
            let message = series.message(1, 7, size);
            let others = [
                series.message(1, 8, size),
                series.message(1, 6, size),
                series.message(2, 7, size),
                series.message(0, 7, size),
                pattern.of_run(Run(12)).message(1, 7, size),
            ];
            for other in others {
                let found = bytes(&other);
                assert!(!message.is(&found), "{size} bytes passed: {:?}", other.name());
                assert!(verifier(series, message).feed(&found).is_err());
            }
        }
    }

    #[test]
    fn bodies_of_neighbours_differ_even_without_their_headers() {
        let pattern = Pattern::new(64);
        let series = pattern.of_run(Run(5));
        for sequence in 0..1000 {
            let body = series.message(4, sequence, 64).body();
            let others = [
                series.message(4, sequence + 1, 64),
                series.message(5, sequence, 64),
                pattern.of_run(Run(6)).message(4, sequence, 64),
            ];
            assert!(others.iter().all(|other| other.body() != body), "sequence {sequence}");
        }
    }

    #[test]
    fn windows_of_neighbours_differ() {
        let pattern = Pattern::new(64);
        let series = pattern.of_run(Run(5));
        let due = series.window(4, 1 << 40, 64);
        assert!(due.is(due.bytes()) && !due.is(&due.bytes()[..63]));
        assert_eq!(due.difference(&due.bytes()[..63]), 63);
        for distance in 1..16 << 10 {
            let others = [
                series.window(4, (1 << 40) + u64::from(distance), 64),
                series.window(4 + distance, 1 << 40, 64),
                pattern.of_run(Run(5 + distance)).window(4, 1 << 40, 64),
            ];
            assert!(others.iter().all(|other| !due.is(other.bytes())), "distance {distance}");
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
