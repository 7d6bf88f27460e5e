//! The bytes of a file: a header, and frames behind it. All numbers are little-endian.
//!
//! A frame is found by a mark and has a checksum, both of which depend on random numbers in the header. So nothing that
//! a client puts into a value can look like a frame.
//!
//! Behind the last frame zeros may stand, which no mark begins with.

use std::time::Duration;

/// What tells registries apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ids {
    pub(crate) cluster: u64,
    pub(crate) member: u64,
}

impl Ids {
    pub(crate) fn random() -> Self {
        Self { cluster: fastrand::u64(1..), member: fastrand::u64(1..) }
    }
}

/// The first bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The number in the file's name.
    pub(super) number: u64,
    /// The sequence number of the first frame.
    pub(super) first: u64,
    pub(super) ids: Ids,
    /// Its first byte is not 0, so that it cannot be taken for room that was not used.
    mark: u32,
    salt: u32,
}

impl Header {
    pub(super) const BYTES: usize = 52;

    pub(super) fn new(number: u64, first: u64, ids: Ids) -> Self {
        Self { number, first, ids, mark: fastrand::u32(..) | 1, salt: fastrand::u32(..) }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend_from_slice(MAGIC);
        for number in [self.number, self.first, self.ids.cluster, self.ids.member] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.mark.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// `None` if the file does not begin with a header that is intact.
    pub(super) fn decode(file: &[u8]) -> Option<Self> {
        let (hashed, hash) = file.get(..Self::BYTES)?.split_at(Self::BYTES - 4);
        if !hashed.starts_with(MAGIC) || crc32fast::hash(hashed) != u32_at(hash, 0)? {
            return None;
        }
        Some(Self {
            number: u64_at(hashed, 8)?,
            first: u64_at(hashed, 16)?,
            ids: Ids { cluster: u64_at(hashed, 24)?, member: u64_at(hashed, 32)? },
            mark: u32_at(hashed, 40)?,
            salt: u32_at(hashed, 44)?,
        })
    }

    /// A frame: mark, checksum, length of the payload, sequence number, the first sequence number that may not be on
    /// the disk when the frame is written, time on the clock of leases, payload.
    pub(super) fn frame(
        &self,
        sequence: u64,
        synced: u64,
        clock: Duration,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut frame = Vec::with_capacity(FRAME_BYTES + payload.len());
        frame.extend_from_slice(&self.mark.to_le_bytes());
        frame.extend_from_slice(&[0; 4]);
        let length = u32::try_from(payload.len()).expect("a journal is far shorter");
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&sequence.to_le_bytes());
        frame.extend_from_slice(&synced.to_le_bytes());
        let clock_ms = u64::try_from(clock.as_millis()).unwrap_or(u64::MAX);
        frame.extend_from_slice(&clock_ms.to_le_bytes());
        frame.extend_from_slice(payload);
        let hash = self.hash(&frame[8..]);
        frame[4..8].copy_from_slice(&hash.to_le_bytes());
        frame
    }

    fn hash(&self, bytes: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.salt);
        hasher.update(bytes);
        hasher.finalize()
    }

    /// The frame at the beginning of the bytes, if it is intact.
    fn read<'a>(&self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        if u32_at(bytes, 0)? != self.mark {
            return None;
        }
        let length = usize::try_from(u32_at(bytes, 8)?).ok()?;
        let hashed = bytes.get(8..FRAME_BYTES.checked_add(length)?)?;
        if self.hash(hashed) != u32_at(bytes, 4)? {
            return None;
        }
        Some(Frame {
            sequence: u64_at(bytes, 12)?,
            synced: u64_at(bytes, 20)?,
            clock: Duration::from_millis(u64_at(bytes, 28)?),
            payload: bytes.get(FRAME_BYTES..FRAME_BYTES + length)?,
        })
    }
}

/// A frame that is intact.
pub(super) struct Frame<'a> {
    pub(super) sequence: u64,
    synced: u64,
    pub(super) clock: Duration,
    pub(super) payload: &'a [u8],
}

/// The frames of a file, read one by one.
pub(super) struct Frames<'a> {
    pub(super) header: Header,
    file: &'a [u8],
    /// The place of the next frame.
    pub(super) at: usize,
    /// Its sequence number.
    pub(super) next: u64,
}

/// What there is at a place of a file.
pub(super) enum NextFrame<'a> {
    /// A frame, which comes next in the sequence.
    Frame(Frame<'a>),
    /// The end, and nothing but zeros behind it.
    End,
    /// A write that is not complete, and that no later frame knows to have been synced.
    Torn,
    /// Something that was synced once, as a later frame says.
    Damage,
}

impl<'a> Frames<'a> {
    /// `None` if the header is damaged.
    pub(super) fn of(file: &'a [u8]) -> Option<Self> {
        let header = Header::decode(file)?;
        Some(Self { header, file, at: Header::BYTES, next: header.first })
    }

    pub(super) fn next(&mut self) -> NextFrame<'a> {
        let rest = &self.file[self.at..];
        if rest.iter().all(|byte| *byte == 0) {
            return NextFrame::End;
        }
        match self.header.read(rest) {
            Some(frame) if frame.sequence == self.next => {
                self.next += 1;
                self.at += FRAME_BYTES + frame.payload.len();
                NextFrame::Frame(frame)
            }
            Some(_) => NextFrame::Damage,
            None if self.was_synced(rest) => NextFrame::Damage,
            None => NextFrame::Torn,
        }
    }

    /// Whether a frame behind the first byte says that the next one was synced. A client does not know the mark, so few
    /// places have it.
    fn was_synced(&self, rest: &[u8]) -> bool {
        let mark = self.header.mark.to_le_bytes();
        let places = (1..rest.len()).filter(|at| rest[*at..].starts_with(&mark));
        let mut frames = places.filter_map(|at| self.header.read(&rest[at..]));
        frames.any(|frame| frame.synced > self.next)
    }
}

const MAGIC: &[u8; 8] = b"RWYREG\x01\n";

/// Bytes of a frame without its payload.
const FRAME_BYTES: usize = 36;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Ids = Ids { cluster: 7, member: 8 };
    const PAYLOADS: [&[u8]; 4] = [b"first", b"", b"third \0\0\0", b"the last"];

    /// A file, and the places where its frames end.
    fn file() -> (Vec<u8>, Vec<usize>) {
        let header = Header::new(3, 10, IDS);
        let mut file = header.encode();
        let ends = PAYLOADS.iter().zip(10..).map(|(payload, sequence)| {
            file.extend(header.frame(sequence, sequence, Duration::from_millis(sequence), payload));
            file.len()
        });
        let ends = ends.collect();
        (file, ends)
    }

    /// The payloads that are read, and what ends them.
    fn read(file: &[u8]) -> Option<(Vec<&[u8]>, &'static str)> {
        let mut frames = Frames::of(file)?;
        let mut payloads = Vec::new();
        loop {
            match frames.next() {
                NextFrame::Frame(frame) => payloads.push(frame.payload),
                NextFrame::End => return Some((payloads, "end")),
                NextFrame::Torn => return Some((payloads, "torn")),
                NextFrame::Damage => return Some((payloads, "damage")),
            }
        }
    }

    #[test]
    fn a_file_cut_anywhere_has_the_frames_before_the_cut() {
        let (file, ends) = file();
        assert_eq!(read(&file), Some((PAYLOADS.to_vec(), "end")));
        for cut in 0..file.len() {
            let Some((payloads, ending)) = read(&file[..cut]) else {
                assert!(cut < Header::BYTES, "cut at {cut}");
                continue;
            };
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let is_between = cut == Header::BYTES || ends.contains(&cut);
            let expected = if is_between { "end" } else { "torn" };
            assert_eq!((payloads, ending), (PAYLOADS[..whole].to_vec(), expected), "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_is_never_read_and_is_damage_unless_it_is_in_the_last_frame() {
        let (file, ends) = file();
        for (at, bit) in (0..file.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << bit;
            let Some((payloads, ending)) = read(&flipped) else {
                assert!(at < Header::BYTES, "flipped at {at}");
                continue;
            };
            let whole = ends.iter().filter(|end| **end <= at).count();
            let expected = if whole == PAYLOADS.len() - 1 { "torn" } else { "damage" };
            assert_eq!(
                (payloads, ending),
                (PAYLOADS[..whole].to_vec(), expected),
                "bit {bit} of {at}"
            );
        }
    }

    #[test]
    fn a_lost_frame_is_no_damage_if_it_was_not_synced_before_the_next() {
        let header = Header::new(1, 0, IDS);
        let frame = |sequence, synced| header.frame(sequence, synced, Duration::ZERO, b"payload");
        let lost = vec![0; frame(1, 1).len()];
        for (synced, expected) in [(1, "torn"), (2, "damage")] {
            let file = [header.encode(), frame(0, 0), lost.clone(), frame(2, synced)].concat();
            assert_eq!(read(&file), Some((vec![&b"payload"[..]], expected)));
        }
    }

    #[test]
    fn frames_of_another_file_or_out_of_their_order_are_damage() {
        let (file, ends) = file();
        let swapped = [&file[..ends[0]], &file[ends[1]..ends[2]], &file[ends[0]..ends[1]]].concat();
        assert_eq!(read(&swapped), Some((vec![PAYLOADS[0]], "damage")));
        let other = self::file().0;
        let mixed = [&file[..ends[1]], &other[ends[1]..]].concat();
        assert_eq!(read(&mixed), Some((PAYLOADS[..2].to_vec(), "torn")));
        // Room that was not used, and something in the middle of it.
        let mut padded = [&file[..], &[0; 4096]].concat();
        assert_eq!(read(&padded), Some((PAYLOADS.to_vec(), "end")));
        padded[file.len() + 100] = 1;
        assert_eq!(read(&padded), Some((PAYLOADS.to_vec(), "torn")));
    }
}
