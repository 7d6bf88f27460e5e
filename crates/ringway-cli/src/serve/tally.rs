//! Counts of the framing discard server: one per connection, sent at its end, and a total.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mongo::MongoTally;

/// Bytes of a [`Tally`] on the wire: four little-endian `u64`.
pub(crate) const TALLY_BYTES: usize = 32;

/// Bytes of an acknowledgement on the wire: a little-endian `u32`.
pub(crate) const ACKNOWLEDGEMENT_BYTES: usize = 4;

/// Returns what the server sends when so many packets of a connection have been right. For a wrong one it sends the
/// number once more.
pub(crate) fn acknowledgement(packets: u64) -> [u8; ACKNOWLEDGEMENT_BYTES] {
    (packets as u32).to_le_bytes()
}

/// Packets and bytes of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Packets framed and correct.
    pub(crate) packets: u64,
    /// Packets with a wrong byte; framing ends at the first one.
    pub(crate) mismatches: u64,
    /// All bytes received.
    pub(crate) bytes: u64,
}

impl Tally {
    /// Encodes the answer to a client that has finished sending.
    pub(crate) fn to_bytes(self) -> [u8; TALLY_BYTES] {
        let mut bytes = [0; TALLY_BYTES];
        let words = [MAGIC, self.packets, self.mismatches, self.bytes];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes an answer; `None` if it is invalid.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TALLY_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            u64::from_le_bytes(bytes[8 * at..][..8].try_into().expect("eight of 32 bytes"))
        };
        (word(0) == MAGIC).then(|| Self { packets: word(1), mismatches: word(2), bytes: word(3) })
    }
}

/// Counts of all connections of all cores.
#[derive(Debug, Default)]
pub(super) struct Totals {
    packets: AtomicU64,
    mismatches: AtomicU64,
    /// Those of MongoDB's responder.
    pub(super) mongo: Arc<MongoTally>,
}

impl Totals {
    /// Adds correct packets.
    pub(super) fn add_packets(&self, count: u64) {
        self.packets.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds a wrong packet. Returns whether it is the first.
    pub(super) fn add_mismatch(&self) -> bool {
        self.mismatches.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    pub(super) fn mismatches(&self) -> u64 {
        self.mismatches.load(Ordering::Relaxed)
    }
}

/// `RINGTALY` as bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"RINGTALY");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_survives_the_wire() {
        let tally = Tally { packets: 1 << 40, mismatches: 1, bytes: 7 };
        let mut bytes = tally.to_bytes();
        assert_eq!(Tally::from_bytes(&bytes), Some(tally));
        bytes[0] ^= 1;
        assert_eq!(Tally::from_bytes(&bytes), None);
        assert_eq!(Tally::from_bytes(&bytes[1..]), None);
    }
}
