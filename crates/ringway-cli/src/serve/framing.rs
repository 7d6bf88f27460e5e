//! Splits a stream into packets by their length field, in place, and checks each.

use super::tally::Tally;
use crate::limits;
use crate::payload::{Mismatch, PACKET_BYTES_MIN, PacketVerifier};

/// The framing of one connection. Packets are checked where they were received; only one that straddles
/// two pieces is copied.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    verifier: PacketVerifier,
    /// The beginning of an incomplete packet.
    carried: Vec<u8>,
    bytes: u64,
    /// Bytes that the next run of packets may have: mixed lengths make it short, or every change of length
    /// would cost a look at all that follows.
    run_bytes: usize,
    /// Framing ends at the first wrong byte, since the start of the next packet is unknown.
    mismatch: Option<Mismatch>,
}

impl Framing {
    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.mismatch.is_none()
            && let Err(mismatch) = self.frame(piece)
        {
            self.mismatch = Some(mismatch);
        }
    }

    /// Returns the counts so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            packets: self.verifier.verified(),
            mismatches: u64::from(self.mismatch.is_some()),
            bytes: self.bytes,
        }
    }

    /// Returns the first wrong byte, if there was one.
    pub(crate) fn mismatch(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref()
    }

    fn frame(&mut self, mut piece: &[u8]) -> Result<(), Mismatch> {
        if !self.carried.is_empty() {
            piece = self.complete(piece)?;
        }
        while let Some(size) = length_of(piece) {
            if !is_plausible(size) {
                return Err(self.verifier.wrong_length(piece));
            }
            if piece.len() < size {
                break;
            }
            let before = self.verifier.verified();
            // A run of packets of one length is checked as a whole; another length ends it.
            let run = &piece[..piece.len().min(self.run_bytes.max(size))];
            match self.verifier.packets(run, size) {
                Ok(taken) => {
                    self.run_bytes = self.run_bytes.max(taken).saturating_mul(2);
                    piece = &piece[taken..];
                }
                Err(mismatch) => {
                    let taken = (self.verifier.verified() - before) as usize * size;
                    if taken == 0 || mismatch.offset >= LENGTH_BYTES {
                        return Err(mismatch);
                    }
                    self.run_bytes = taken;
                    piece = &piece[taken..];
                }
            }
        }
        self.carried.extend_from_slice(piece);
        Ok(())
    }

    /// Completes the carried packet from `piece` and returns the rest.
    fn complete<'a>(&mut self, mut piece: &'a [u8]) -> Result<&'a [u8], Mismatch> {
        let mut wanted = LENGTH_BYTES;
        loop {
            let missing = wanted.saturating_sub(self.carried.len()).min(piece.len());
            let (head, rest) = piece.split_at(missing);
            self.carried.extend_from_slice(head);
            piece = rest;
            match length_of(&self.carried) {
                Some(size) if !is_plausible(size) => {
                    return Err(self.verifier.wrong_length(&self.carried));
                }
                Some(size) if self.carried.len() < size && !piece.is_empty() => wanted = size,
                Some(size) if self.carried.len() == size => break,
                _ => return Ok(piece),
            }
        }
        self.verifier.packet(&self.carried)?;
        self.carried.clear();
        Ok(piece)
    }
}

/// Returns the length of the whole packet from the length field at the start of `bytes`; `None` while that is incomplete.
fn length_of(bytes: &[u8]) -> Option<usize> {
    let field = bytes.first_chunk::<LENGTH_BYTES>()?;
    Some(u32::from_le_bytes(*field) as usize + LENGTH_BYTES)
}

fn is_plausible(size: usize) -> bool {
    (PACKET_BYTES_MIN..=limits::MESSAGE_BYTES_MAX as usize).contains(&size)
}

const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::fill_batch;

    fn packets(size: usize, first: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; size * count];
        assert_eq!(fill_batch(&mut bytes, size, 3, first), count);
        bytes
    }

    fn tally(pieces: &[&[u8]]) -> Tally {
        let mut framing = Framing::default();
        pieces.iter().for_each(|piece| framing.take(piece));
        framing.tally()
    }

    #[test]
    fn pieces_may_be_cut_at_every_byte() {
        for size in [16, 32, 33] {
            let bytes = packets(size, 0, 5);
            for cut in 0..=bytes.len() {
                let (head, tail) = bytes.split_at(cut);
                let found = tally(&[head, tail]);
                assert_eq!((found.packets, found.mismatches), (5, 0), "size {size}, cut at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(tally(&single).packets, 5);
        }
    }

    #[test]
    fn lengths_may_change_from_packet_to_packet() {
        let mut bytes = Vec::new();
        for (index, size) in [32, 32, 16, 40, 40, 40, 32, 16, 17, 16].into_iter().enumerate() {
            bytes.extend(packets(size, index as u64, 1));
        }
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let found = tally(&[head, tail]);
            assert_eq!((found.packets, found.mismatches), (10, 0), "cut at {cut}");
        }
    }

    #[test]
    fn a_wrong_byte_ends_the_count_where_it_is() {
        let good = packets(32, 0, 4);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x20;
            let found = tally(&[&bytes, &packets(32, 4, 100)]);
            // A length of kilobytes or megabytes may be right until that many bytes have arrived.
            let waits = [1, 2].contains(&(at % 32));
            assert_eq!(found.mismatches, u64::from(!waits), "byte {at}");
            assert_eq!(found.packets, at as u64 / 32, "byte {at}");
            assert_eq!(found.bytes, 104 * 32);
        }
    }

    #[test]
    fn lengths_that_no_packet_has_are_mismatches() {
        for field in [0_u32, 11, u32::MAX, limits::MESSAGE_BYTES_MAX] {
            let bytes = field.to_le_bytes();
            assert_eq!(tally(&[&bytes]).mismatches, 1, "{field}");
            assert_eq!(tally(&[&bytes[..1], &bytes[1..]]).mismatches, 1, "{field}");
        }
        assert_eq!(tally(&[&[1, 0, 0]]).mismatches, 0, "the field is not complete");
    }
}
