//! Messages in one piece, for senders of `Bytes`: a message costs no allocation, and a large
//! one costs no copy.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::message::{Due, Message, Pattern};
use super::name::MESSAGE_HEADER_BYTES;

/// Makes messages one after another in the memory of messages that nobody reads any more.
pub(crate) struct Composer {
    pattern: Pattern,
    /// The unused rest of the chunk for small messages.
    chunk: BytesMut,
    /// Copies of the pattern without messages; the one used last is used next.
    spare: Vec<Sheet>,
    /// Copies whose messages may still be read, the oldest first.
    lent: VecDeque<Sheet>,
}

/// A copy of the pattern with room for a header before it. A header is written over the bytes before a
/// body, and the message is cut out.
struct Sheet {
    bytes: Bytes,
    /// Position of the last header.
    stamped: usize,
}

impl Composer {
    /// Makes a composer of messages with bodies from `pattern`.
    pub(crate) fn new(pattern: Pattern) -> Self {
        Self { pattern, chunk: BytesMut::new(), spare: Vec::new(), lent: VecDeque::new() }
    }

    /// Returns `message` in one piece.
    #[inline]
    pub(crate) fn compose(&mut self, message: &Message) -> Bytes {
        if message.len() > COPIED_BYTES_MAX {
            return self.stamp(message);
        }
        if self.chunk.capacity() < message.len() {
            // It is reused if all of its messages are gone.
            self.chunk.reserve(CHUNK_BYTES);
        }
        message.append_to(&mut self.chunk);
        self.chunk.split().freeze()
    }

    fn stamp(&mut self, message: &Message) -> Bytes {
        let mut sheet = self.take_sheet();
        let made = sheet.stamp(self.pattern, message);
        self.lent.push_back(sheet);
        made
    }

    fn take_sheet(&mut self) -> Sheet {
        if self.spare.is_empty() {
            for _ in 0..SHEETS_LOOKED_AT.min(self.lent.len()) {
                let oldest = self.lent.pop_front().expect("as many as are looked at");
                match oldest.bytes.is_unique() {
                    true => self.spare.push(oldest),
                    false => self.lent.push_back(oldest),
                }
            }
        }
        self.spare.pop().unwrap_or_else(|| Sheet::new(self.pattern))
    }
}

impl Sheet {
    fn new(pattern: Pattern) -> Self {
        Self { bytes: Self::blank(pattern).freeze(), stamped: 0 }
    }

    fn blank(pattern: Pattern) -> BytesMut {
        let mut bytes = BytesMut::zeroed(MESSAGE_HEADER_BYTES);
        bytes.extend_from_slice(pattern.bytes());
        // Splitting makes the memory shared for good, so later messages allocate nothing.
        drop(bytes.split_to(0));
        bytes
    }

    fn stamp(&mut self, pattern: Pattern, message: &Message) -> Bytes {
        let bytes = std::mem::take(&mut self.bytes).try_into_mut();
        let mut bytes = bytes.unwrap_or_else(|_still_read| Self::blank(pattern));
        // The bytes under the last header; the first ones belong to no body.
        let restored = self.stamped.max(MESSAGE_HEADER_BYTES)..self.stamped + MESSAGE_HEADER_BYTES;
        let original = restored.start - MESSAGE_HEADER_BYTES..restored.end - MESSAGE_HEADER_BYTES;
        bytes[restored].copy_from_slice(&pattern.bytes()[original]);
        let start = message.start();
        bytes[start..start + MESSAGE_HEADER_BYTES].copy_from_slice(message.header());
        self.stamped = start;
        self.bytes = bytes.freeze();
        self.bytes.slice(start..start + message.len())
    }
}

/// Up to this size a copy costs less than separate memory for each message under way.
const COPIED_BYTES_MAX: usize = 512;
/// Memory for small messages is allocated in chunks of this size: a thousand usual messages, so that the
/// allocations are negligible beside an operation.
const CHUNK_BYTES: usize = 64 << 10;
/// Few enough to need no search, and more than one so that a slow message holds up no others.
const SHEETS_LOOKED_AT: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::name::Run;
    use super::*;

    const SIZES: [usize; 6] = [0, 1, 47, 512, 513, 20_000];

    #[test]
    fn messages_are_what_they_should_be_however_long_they_are_kept() {
        for size in SIZES {
            for kept_max in [0, 1, 7, 40] {
                let pattern = Pattern::new(size);
                let series = pattern.of_run(Run(3));
                let mut composer = Composer::new(pattern);
                let mut kept = VecDeque::new();
                for sequence in 0..300 {
                    let message = series.message(1, sequence, size);
                    kept.push_back((message, composer.compose(&message)));
                    if kept.len() > kept_max {
                        // They are dropped in neither order.
                        let at = sequence as usize * 7 % kept.len();
                        let (message, made) = kept.remove(at).expect("below its length");
                        assert!(message.is(&made), "{size} bytes, message {:?}", message.name());
                    }
                }
            }
        }
    }

    #[test]
    fn no_more_sheets_are_made_than_messages_are_kept_at_once() {
        let pattern = Pattern::new(10_000);
        let series = pattern.of_run(Run(3));
        let mut composer = Composer::new(pattern);
        let mut kept = VecDeque::new();
        for sequence in 0..1000 {
            kept.push_back(composer.compose(&series.message(1, sequence, 10_000)));
            if kept.len() == 5 {
                kept.pop_front();
            }
        }
        let made = composer.spare.len() + composer.lent.len();
        assert!(made <= 5, "{made} sheets for 5 messages");
    }

    #[test]
    fn sheets_and_chunks_are_used_again() {
        for size in [47, 10_000] {
            let pattern = Pattern::new(size);
            let series = pattern.of_run(Run(3));
            let mut composer = Composer::new(pattern);
            let places: std::collections::HashSet<_> = (0..50_000)
                .map(|i| {
                    composer.compose(&series.message(1, i, size)).as_ptr() as usize / (256 << 10)
                })
                .collect();
            assert!(places.len() <= 3, "{} places in memory", places.len());
        }
    }
}
