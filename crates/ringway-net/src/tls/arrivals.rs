//! Where in a client's bytes something ends that a server computes with.

/// Follows the records of a client during its handshake (RFC 8446, section 5.1, and RFC 5246, section 6.2).
///
/// Computing begins with a whole message, and a message may come in as many pieces as a client likes. As
/// long as messages are readable this follows them; of encrypted ones it sees the records.
#[derive(Default)]
pub(super) struct Arrivals {
    record: Head<5>,
    /// Bytes of the record that are still to come.
    record_left: usize,
    message: Head<4>,
    /// Bytes of the message that are still to come.
    message_left: usize,
    is_encrypted: bool,
    /// Something came that is no record: from here on anything may be computed with.
    is_lost: bool,
}

/// The first bytes of something, gathered.
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
    /// Takes what is missing from the front of `bytes`; whether it is whole now.
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
    /// Takes the next bytes; whether they complete something that is computed with.
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

    /// Takes bytes of one record.
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

    /// Follows the messages in a readable record; whether one ends.
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

    /// The positions behind which something was complete, where bytes come one by one.
    fn completed(bytes: &[u8]) -> Vec<usize> {
        let mut arrivals = Arrivals::default();
        (0..bytes.len()).filter(|&at| arrivals.complete(&bytes[at..=at])).collect()
    }

    #[test]
    fn a_readable_message_counts_once_in_however_many_records_it_comes() {
        let message = message(20);
        let pieces: Vec<u8> = message.iter().flat_map(|&byte| record(HANDSHAKE, &[byte])).collect();
        assert_eq!(completed(&pieces), [pieces.len() - 1]);
        let whole = record(HANDSHAKE, &message);
        assert_eq!(completed(&whole), [whole.len() - 1]);
        assert!(Arrivals::default().complete(&whole), "in one piece");
        assert!(!Arrivals::default().complete(&whole[..whole.len() - 1]));
    }

    #[test]
    fn several_messages_of_one_record_count_each() {
        let two = record(HANDSHAKE, &[message(3), message(0)].concat());
        assert_eq!(completed(&two), [5 + 7 - 1, 5 + 7 + 4 - 1]);
    }

    #[test]
    fn encrypted_records_count_and_what_is_between_does_not() {
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
    fn what_is_no_record_counts_always() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[22, 3, 3, 0, 0, 0, 0]] {
            let mut arrivals = Arrivals::default();
            assert!(arrivals.complete(bytes));
            assert!(arrivals.complete(b"x"));
        }
    }
}
