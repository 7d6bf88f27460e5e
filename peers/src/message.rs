//! Messages: each request has its own bytes, made without copying, and its reply must equal them.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of the header: sequence (u64), connection (u32) and length (u32), little endian.
pub(crate) const HEADER_BYTES: usize = 16;

/// Offsets into the pattern at which a body may begin, and the distance between two.
const BODY_OFFSETS: u64 = 512;
const BODY_OFFSET_STEP: usize = 8;

/// All messages of a run. Bodies are windows into one pattern that stays in cache, at an offset
/// that depends on the request, so comparing is one `memcmp` against hot memory.
pub(crate) struct Messages {
    message_bytes: usize,
    pattern: Vec<u8>,
}

impl Messages {
    pub(crate) fn new(message_bytes: usize) -> Self {
        let body_bytes = message_bytes.saturating_sub(HEADER_BYTES);
        let pattern_bytes = body_bytes + BODY_OFFSETS as usize * BODY_OFFSET_STEP;
        Self { message_bytes, pattern: pseudo_random(pattern_bytes) }
    }

    /// Bytes of each message.
    pub(crate) fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// The header of a request; a message shorter than a header sends only the front of it.
    pub(crate) fn header(&self, connection: u32, sequence: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&sequence.to_le_bytes());
        header[8..12].copy_from_slice(&connection.to_le_bytes());
        header[12..].copy_from_slice(&(self.message_bytes as u32).to_le_bytes());
        header
    }

    /// Returns the part of `header` that is sent, and the body that follows it.
    pub(crate) fn parts<'a>(
        &'a self,
        header: &'a [u8; HEADER_BYTES],
        connection: u32,
        sequence: u64,
    ) -> [&'a [u8]; 2] {
        let offset = body_offset(connection, sequence);
        let body_bytes = self.message_bytes.saturating_sub(HEADER_BYTES);
        let header = &header[..self.message_bytes.min(HEADER_BYTES)];
        [header, &self.pattern[offset..offset + body_bytes]]
    }
}

/// Returns a whole message in one piece, for interfaces that own their messages.
pub(crate) fn joined(parts: [&[u8]; 2]) -> Bytes {
    let [header, body] = parts;
    let mut message = BytesMut::with_capacity(header.len() + body.len());
    message.put_slice(header);
    message.put_slice(body);
    message.freeze()
}

/// Whether `bytes` is exactly `parts`.
pub(crate) fn equals(parts: [&[u8]; 2], bytes: &[u8]) -> bool {
    bytes.len() == parts[0].len() + parts[1].len() && begins_with(parts, bytes)
}

/// Returns the rest of `parts` after its first `skip` bytes.
pub(crate) fn remainder(parts: [&[u8]; 2], skip: usize) -> [&[u8]; 2] {
    let [header, body] = parts;
    let in_header = skip.min(header.len());
    let in_body = (skip - in_header).min(body.len());
    [&header[in_header..], &body[in_body..]]
}

/// Whether `parts` continues with `bytes`.
pub(crate) fn begins_with(parts: [&[u8]; 2], bytes: &[u8]) -> bool {
    let [header, body] = parts;
    let (front, back) = bytes.split_at(bytes.len().min(header.len()));
    header.starts_with(front) && body.starts_with(back)
}

/// The messages of a flood, sent by a server on its own. They are windows into a pattern that lives as long as
/// the process, so that sending one costs neither a copy nor a reference count. They are
/// made and compared like those of `ringway bench stream --one-way`.
#[derive(Clone, Copy)]
pub(crate) struct FloodPattern {
    pattern: &'static [u8],
    message_bytes: usize,
}

impl FloodPattern {
    pub(crate) fn new(message_bytes: usize) -> Self {
        let pattern = pseudo_random(message_bytes + FLOOD_OFFSETS).leak();
        Self { pattern, message_bytes }
    }

    /// Returns the message with this number. It repeats after `FLOOD_OFFSETS` others.
    pub(crate) fn message(&self, sequence: u64) -> &'static [u8] {
        let offset = sequence.wrapping_mul(FLOOD_FACTOR) as usize % FLOOD_OFFSETS;
        &self.pattern[offset..offset + self.message_bytes]
    }

    /// Whether `bytes` is the message with this number.
    pub(crate) fn is_message(&self, sequence: u64, bytes: &[u8]) -> bool {
        bytes == self.message(sequence)
    }
}

/// Offsets at which a message of a flood may begin.
const FLOOD_OFFSETS: usize = 16 << 10;

/// An odd step, so that as many messages in a row as there are offsets differ.
const FLOOD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn body_offset(connection: u32, sequence: u64) -> usize {
    let mixed = sequence.wrapping_mul(17).wrapping_add(u64::from(connection) * 131);
    (mixed % BODY_OFFSETS) as usize * BODY_OFFSET_STEP
}

/// The xorshift64* sequence from a fixed seed: the same bytes in each run.
fn pseudo_random(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(messages: &Messages, connection: u32, sequence: u64) -> Vec<u8> {
        let header = messages.header(connection, sequence);
        messages.parts(&header, connection, sequence).concat()
    }

    #[test]
    fn neighbouring_requests_differ_in_header_and_body() {
        let messages = Messages::new(64);
        let this = whole(&messages, 3, 9);
        for other in [whole(&messages, 3, 10), whole(&messages, 4, 9), whole(&messages, 3, 8)] {
            assert_eq!(other.len(), 64);
            assert_ne!(this[..16], other[..16]);
            assert_ne!(this[16..], other[16..]);
        }
    }

    #[test]
    fn a_message_equals_itself_and_nothing_shorter_or_longer() {
        let messages = Messages::new(64);
        let header = messages.header(3, 9);
        let parts = messages.parts(&header, 3, 9);
        let message = joined(parts);
        assert!(equals(parts, &message));
        assert!(!equals(parts, &message[..63]));
        assert!(!equals(parts, &[&message[..], &[0]].concat()));
    }

    #[test]
    fn a_message_of_a_flood_is_not_its_neighbour() {
        let flood = FloodPattern::new(128);
        for sequence in 0..FLOOD_OFFSETS as u64 {
            let message = flood.message(sequence);
            assert!(message.len() == 128 && flood.is_message(sequence, message));
            assert!(!flood.is_message(sequence + 1, message));
            assert!(!flood.is_message(sequence, &message[..127]));
        }
    }

    #[test]
    fn every_cut_is_recognised_and_every_flipped_byte_is_not() {
        for size in [1, 5, 16, 17, 64] {
            let messages = Messages::new(size);
            let header = messages.header(1, 2);
            let parts = messages.parts(&header, 1, 2);
            let bytes = parts.concat();
            assert_eq!(bytes.len(), size);
            for cut in 0..size {
                let rest = remainder(parts, cut);
                assert_eq!(rest.concat(), bytes[cut..]);
                assert!(begins_with(rest, &bytes[cut..]));
                let mut wrong = bytes.clone();
                wrong[cut] ^= 1;
                assert!(!begins_with(parts, &wrong), "size {size}, byte {cut}");
            }
        }
    }
}
