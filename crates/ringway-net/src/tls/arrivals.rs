//! Finds the ends of handshake messages in a client's bytes.

/// Follows the records of a client during its handshake (RFC 8446, section 5.1, and RFC 5246,
/// section 6.2).
///
/// A server computes when a message is complete, and a client may send a message in any number of
/// pieces. While messages are readable this follows messages; once they are encrypted, it follows
/// records.
#[derive(Default)]
pub(super) struct Arrivals {
    record: Head<5>,
    /// Bytes of the record that have not arrived.
    record_left: usize,
    message: Head<4>,
    /// Bytes of the message that have not arrived.
    message_left: usize,
    is_encrypted: bool,
    /// Whether something arrived that is not a record: from then on any bytes may cause
    /// computation.
    is_lost: bool,
}

/// A header of fixed length, gathered from pieces.
#[derive(Clone, Copy)]
struct Head<const LEN: usize> {
    bytes: [u8; LEN],
    have: usize,
}

impl<const LEN: usize> Default for Head<LEN> {
    fn default() -> Self {
        Self { bytes: [0; LEN], have: 0 }
    }
}

impl<const LEN: usize> Head<LEN> {
    /// Takes the missing bytes from the front of `bytes`; returns whether the header is complete.
    fn fill(&mut self, bytes: &mut &[u8]) -> bool {
        let (taken, rest) = bytes.split_at(bytes.len().min(LEN - self.have));
        self.bytes[self.have..][..taken.len()].copy_from_slice(taken);
        self.have += taken.len();
        *bytes = rest;
        self.have == LEN
    }
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

impl Arrivals {
    /// Takes the next bytes; returns whether they complete something that the server computes with.
    pub(super) fn complete(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        while !bytes.is_empty() && !self.is_lost {
            if self.record_left == 0 {
                if !self.record.fill(&mut bytes) {
                    break;
                }
                let [_, _, _, high, low] = self.record.bytes;
                self.record_left = u16::from_be_bytes([high, low]).into();
                self.is_lost = self.record_left == 0;
            }
            let (body, rest) = bytes.split_at(bytes.len().min(self.record_left));
            bytes = rest;
            self.record_left -= body.len();
            found |= self.take(body);
            if self.record_left == 0 {
                self.record.have = 0;
            }
        }
        found || self.is_lost
    }

    /// Takes bytes of one record; returns whether they complete something.
    fn take(&mut self, body: &[u8]) -> bool {
        let ends = self.record_left == 0;
        match self.record.bytes[0] {
            HANDSHAKE if !self.is_encrypted => self.follow(body),
            HANDSHAKE | APPLICATION_DATA => ends,
            CHANGE_CIPHER_SPEC => {
                self.is_encrypted |= ends;
                false
            }
            ALERT => false,
            _ => {
                self.is_lost = true;
                true
            }
        }
    }

    /// Follows the messages in a readable record; returns whether one ends.
    fn follow(&mut self, mut body: &[u8]) -> bool {
        let mut found = false;
        while !body.is_empty() {
            if self.message_left == 0 {
                if !self.message.fill(&mut body) {
                    break;
                }
                let [_, high, middle, low] = self.message.bytes;
                self.message_left = u32::from_be_bytes([0, high, middle, low]) as usize;
            }
            let taken = body.len().min(self.message_left);
            body = &body[taken..];
            self.message_left -= taken;
            if self.message_left == 0 {
                self.message.have = 0;
                found = true;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).expect("short").to_be_bytes();
        [&[kind, 3, 3], &length[..], body].concat()
    }

    fn message(length: u8) -> Vec<u8> {
        [&[1, 0, 0, length], &vec![7; length.into()][..]].concat()
    }

    /// Returns the positions of the bytes that completed something, when they arrive one by one.
    fn completed(bytes: &[u8]) -> Vec<usize> {
        let mut arrivals = Arrivals::default();
        (0..bytes.len()).filter(|&at| arrivals.complete(&bytes[at..=at])).collect()
    }

    #[test]
    fn readable_message_counts_once_in_any_number_of_records() {
        let message = message(20);
        let pieces: Vec<u8> = message.iter().flat_map(|&byte| record(HANDSHAKE, &[byte])).collect();
        assert_eq!(completed(&pieces), [pieces.len() - 1]);
        let whole = record(HANDSHAKE, &message);
        assert_eq!(completed(&whole), [whole.len() - 1]);
        assert!(Arrivals::default().complete(&whole), "in one piece");
        assert!(!Arrivals::default().complete(&whole[..whole.len() - 1]));
    }

    #[test]
    fn each_message_of_a_record_counts() {
        let two = record(HANDSHAKE, &[message(3), message(0)].concat());
        assert_eq!(completed(&two), [5 + 7 - 1, 5 + 7 + 4 - 1]);
    }

    #[test]
    fn encrypted_records_count_and_alerts_do_not() {
        let parts = [
            record(HANDSHAKE, &message(2)),
            record(ALERT, &[1, 0]),
            record(CHANGE_CIPHER_SPEC, &[1]),
            record(HANDSHAKE, &[9; 40]),
            record(APPLICATION_DATA, &[9; 30]),
        ];
        let ends: Vec<usize> = parts
            .iter()
            .scan(0, |end, part| {
                *end += part.len();
                Some(*end - 1)
            })
            .collect();
        assert_eq!(completed(&parts.concat()), [ends[0], ends[3], ends[4]]);
    }

    #[test]
    fn bytes_that_are_not_records_always_count() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[22, 3, 3, 0, 0, 0, 0]] {
            let mut arrivals = Arrivals::default();
            assert!(arrivals.complete(bytes));
            assert!(arrivals.complete(b"x"));
        }
    }
}
