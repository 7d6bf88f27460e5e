//! Packets of the receive suite: length of the rest (`u32`), sequence on the connection from 0 (`u64`), the
//! connection hidden in a tag (`u32`), then words computed from both; all little-endian.
//!
//! Both ends handle a hundred million of these a second, so a packet of 32 bytes is four words, each written
//! or compared whole, and a batch is judged by one accumulated difference. The server is not told which
//! connection is which: it reads the number out of the first packet and holds every later one against it.

use super::mismatch::{Mismatch, first_difference};
use crate::limits;

/// Length, sequence and tag: no packet is smaller.
pub(crate) const PACKET_BYTES_MIN: usize = 16;

/// Fills `batch` with as many packets of `size` bytes as fit whole, from sequence number `first` on, and
/// returns their count; bytes past the last are left alone.
///
/// # Panics
/// If `size` is below [`PACKET_BYTES_MIN`].
pub(crate) fn fill_batch(batch: &mut [u8], size: usize, connection: u32, first: u64) -> usize {
    assert!(size >= PACKET_BYTES_MIN, "a packet has at least its header");
    // The usual size gets code of its own, in which every loop over words is unrolled.
    match size {
        32 => fill(batch, 32, connection, first),
        _ => fill(batch, size, connection, first),
    }
}

#[inline(always)]
fn fill(batch: &mut [u8], size: usize, connection: u32, first: u64) -> usize {
    let mut sequence = first;
    for packet in batch.chunks_exact_mut(size) {
        write_packet(packet, connection, sequence);
        sequence = sequence.wrapping_add(1);
    }
    (sequence.wrapping_sub(first)) as usize
}

#[inline(always)]
fn write_packet(packet: &mut [u8], connection: u32, sequence: u64) {
    let [word0, word1] = header(packet.len(), connection, sequence);
    packet[..8].copy_from_slice(&word0.to_le_bytes());
    packet[8..16].copy_from_slice(&word1.to_le_bytes());
    let mut body = packet[16..].chunks_exact_mut(8);
    let mut word = body_seed(connection, sequence);
    for chunk in &mut body {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(STEP);
    }
    let tail = body.into_remainder();
    tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
}

/// The differences between `packet` and what it should be, or-ed together: zero if there are none.
#[inline(always)]
fn difference(packet: &[u8], connection: u32, sequence: u64) -> u64 {
    let [word0, word1] = header(packet.len(), connection, sequence);
    let mut difference = (read_word(packet, 0) ^ word0) | (read_word(packet, 8) ^ word1);
    let body = packet[16..].chunks_exact(8);
    let tail = body.remainder();
    let mut word = body_seed(connection, sequence);
    for chunk in body {
        difference |= read_word(chunk, 0) ^ word;
        word = word.wrapping_add(STEP);
    }
    if !tail.is_empty() {
        let mut padded = word.to_le_bytes();
        padded[..tail.len()].copy_from_slice(tail);
        difference |= u64::from_le_bytes(padded) ^ word;
    }
    difference
}

#[inline(always)]
fn header(size: usize, connection: u32, sequence: u64) -> [u64; 2] {
    let rest = (size as u32).wrapping_sub(LENGTH_BYTES);
    let tag = connection.wrapping_add((sequence as u32).wrapping_mul(TAG_FACTOR));
    [u64::from(rest) | (sequence << 32), (sequence >> 32) | (u64::from(tag) << 32)]
}

#[inline(always)]
fn body_seed(connection: u32, sequence: u64) -> u64 {
    (sequence ^ (u64::from(connection) << 40)).wrapping_mul(STEP)
}

#[inline(always)]
fn read_word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Checks the packets of one connection, in the order in which they were sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct PacketVerifier {
    /// Learnt from the first packet.
    connection: Option<u32>,
    /// Packets verified so far, which is the next one's sequence number.
    verified: u64,
}

impl PacketVerifier {
    /// Packets verified so far.
    pub(crate) fn verified(&self) -> u64 {
        self.verified
    }

    /// Checks one packet, cut out by its length field, length field included.
    ///
    /// # Errors
    /// The first byte that differs from what this connection should send next.
    #[inline]
    pub(crate) fn packet(&mut self, packet: &[u8]) -> Result<(), Mismatch> {
        self.packets(packet, packet.len()).map(|_| ())
    }

    /// Frames and checks every whole packet at the start of `bytes`, all of `size` bytes, and returns how
    /// many bytes they had; what remains is the beginning of a packet. Each packet's length field is compared
    /// with `size`, so this counts the same packets as taking them apart one by one.
    ///
    /// # Errors
    /// The first byte that differs from what this connection should send next, be it of a length field;
    /// packets before it count as verified.
    #[inline]
    pub(crate) fn packets(&mut self, bytes: &[u8], size: usize) -> Result<usize, Mismatch> {
        if size < PACKET_BYTES_MIN {
            return Err(self.wrong_length(bytes));
        }
        let whole = &bytes[..bytes.len() - bytes.len() % size];
        let Some(first) = whole.get(..size) else {
            return Ok(0);
        };
        let connection = self.connection_of(first)?;
        let differences = match size {
            32 => batch_difference(whole, 32, connection, self.verified),
            _ => batch_difference(whole, size, connection, self.verified),
        };
        if differences != 0 {
            return Err(self.locate(whole, size, connection));
        }
        self.verified += (whole.len() / size) as u64;
        Ok(whole.len())
    }

    #[inline]
    fn connection_of(&mut self, first: &[u8]) -> Result<u32, Mismatch> {
        if let Some(connection) = self.connection {
            return Ok(connection);
        }
        let tag = u32::from_le_bytes(first[12..16].try_into().expect("four bytes"));
        // Sequence 0 leaves the tag the plain number; one no sender has is a wrong byte at its top end.
        if tag >= limits::CONNECTIONS_MAX {
            return Err(self.mismatch(0, 15, 0, first[15]));
        }
        Ok(*self.connection.insert(tag))
    }

    /// Walks a batch known to hold a fault, counting the packets before it.
    #[cold]
    fn locate(&mut self, whole: &[u8], size: usize, connection: u32) -> Mismatch {
        let mut expected = vec![0; size];
        for packet in whole.chunks_exact(size) {
            write_packet(&mut expected, connection, self.verified);
            if let Some(at) = first_difference(&expected, packet) {
                return self.mismatch(connection, at, expected[at], packet[at]);
            }
            self.verified += 1;
        }
        unreachable!("the batch differs somewhere, or its differences would be zero")
    }

    /// The fault of a packet whose length field says what no packet has.
    #[cold]
    pub(crate) fn wrong_length(&self, packet: &[u8]) -> Mismatch {
        let shortest = (PACKET_BYTES_MIN as u32 - LENGTH_BYTES).to_le_bytes();
        let found = packet.get(..shortest.len()).unwrap_or(&[0; 4]);
        let at = first_difference(&shortest, found).unwrap_or(0);
        self.mismatch(self.connection.unwrap_or(0), at, shortest[at], found[at])
    }

    fn mismatch(&self, connection: u32, offset: usize, expected: u8, found: u8) -> Mismatch {
        Mismatch { connection, sequence: self.verified, offset, expected, found }
    }
}

#[inline(always)]
fn batch_difference(whole: &[u8], size: usize, connection: u32, first: u64) -> u64 {
    let mut sequence = first;
    let mut differences = 0;
    for packet in whole.chunks_exact(size) {
        differences |= difference(packet, connection, sequence);
        sequence = sequence.wrapping_add(1);
    }
    differences
}

const LENGTH_BYTES: u32 = 4;
/// 2^64 and 2^32 divided by the golden ratio, odd: successive multiples share no bytes to speak of.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const TAG_FACTOR: u32 = 0x9e37_79b1;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 8] = [16, 17, 23, 24, 31, 32, 33, 100];

    fn packets(size: usize, count: usize, connection: u32, first: u64) -> Vec<u8> {
        let mut batch = vec![0; size * count];
        assert_eq!(fill_batch(&mut batch, size, connection, first), count);
        batch
    }

    fn verifier_at(connection: u32, verified: u64) -> PacketVerifier {
        PacketVerifier { connection: Some(connection), verified }
    }

    #[test]
    fn layout_is_length_then_sequence() {
        let packet = packets(32, 1, 7, 0x1_0000_0002);
        assert_eq!(packet[..4], 28u32.to_le_bytes());
        assert_eq!(packet[4..12], 0x1_0000_0002u64.to_le_bytes());
    }

    #[test]
    fn batches_may_be_cut_at_every_byte() {
        for size in SIZES {
            let bytes = packets(size, 5, 3, 0);
            for cut in 0..=bytes.len() {
                let mut verifier = PacketVerifier::default();
                let consumed = verifier.packets(&bytes[..cut], size).expect("the sender's bytes");
                assert_eq!(consumed, cut / size * size);
                let consumed = verifier.packets(&bytes[consumed..], size).expect("the rest");
                assert_eq!((consumed % size, verifier.verified()), (0, 5), "{size} cut at {cut}");
            }
        }
    }

    #[test]
    fn one_by_one_is_the_same_as_in_batches() {
        let bytes = packets(33, 4, 3, 0);
        let mut verifier = PacketVerifier::default();
        for packet in bytes.chunks_exact(33) {
            verifier.packet(packet).expect("the sender's bytes");
        }
        assert_eq!(verifier.verified(), 4);
    }

    #[test]
    fn any_flipped_byte_is_found_where_it_is() {
        for size in SIZES {
            let bytes = packets(size, 3, 1, 0);
            for at in 0..bytes.len() {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x40;
                let mut verifier = verifier_at(1, 0);
                let mismatch = verifier.packets(&bytes, size).expect_err("one byte is flipped");
                let place = (mismatch.sequence, mismatch.offset);
                assert_eq!(place, ((at / size) as u64, at % size), "packets of {size}");
                assert_eq!(verifier.verified(), (at / size) as u64);
            }
        }
    }

    #[test]
    fn swapped_connections_are_found() {
        for size in SIZES {
            let mut verifier = PacketVerifier::default();
            verifier.packet(&packets(size, 1, 1, 0)).expect("the first packet of connection 1");
            verifier.packet(&packets(size, 1, 2, 1)).expect_err("a packet of connection 2");
            verifier.packet(&packets(size, 1, 1, 1)).expect("the second of connection 1");
        }
    }

    #[test]
    fn lost_repeated_and_late_packets_are_found() {
        for size in SIZES {
            for wrong in [0, 2, 3, 1 | 1 << 32] {
                let mismatch = verifier_at(6, 1).packet(&packets(size, 1, 6, wrong));
                mismatch.expect_err("another packet than number 1");
            }
        }
    }

    #[test]
    fn the_first_packet_must_be_number_0_of_a_possible_connection() {
        PacketVerifier::default().packet(&packets(32, 1, 5, 1)).expect_err("number 1 comes second");
        let impossible = packets(32, 1, limits::CONNECTIONS_MAX, 0);
        PacketVerifier::default().packet(&impossible).expect_err("no sender has this number");
    }

    #[test]
    fn a_packet_below_its_header_is_refused() {
        for size in 0..PACKET_BYTES_MIN {
            PacketVerifier::default().packet(&vec![0; size]).expect_err("too short");
        }
    }

    #[test]
    fn sequence_numbers_past_32_bits_stay_distinct() {
        let bytes = packets(32, 4, 2, u64::from(u32::MAX) - 1);
        let mut verifier = verifier_at(2, u64::from(u32::MAX) - 1);
        assert_eq!(verifier.packets(&bytes, 32).expect("the sender's bytes"), 128);
    }
}
