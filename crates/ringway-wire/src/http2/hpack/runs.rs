//! Runs of indexed fields that blocks begin with, remembered together with what they come to: the
//! requests of a connection are mostly the same but for a field or two.

use crate::http2::fields::Noted;

/// The bytes of a run, each of which is an index of its own, the first one lowest; then zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexRun(u64);

/// Bytes from which on a run is worth a look: what it saves is more than what that costs.
pub(super) const RUN_MIN: usize = 3;

/// Runs that a connection remembers: of one method each, where these are called in turns. 640 bytes.
const RUNS: usize = 4;

/// The highest bit of each byte: an index of one byte has it.
const HIGH: u64 = 0x8080_8080_8080_8080;

impl IndexRun {
    /// At the front of a block: eight bytes at most.
    #[inline]
    pub(super) fn at_front(block: &[u8]) -> Self {
        let front = match block.first_chunk() {
            Some(front) => u64::from_le_bytes(*front),
            None => block.iter().rev().fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)),
        };
        let others = !front & HIGH;
        // The bits below the first byte that is no index, or all.
        let below = ((others & others.wrapping_neg()) >> 7).wrapping_sub(1);
        Self(front & below)
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        8 - self.0.leading_zeros() as usize / 8
    }
}

/// A run and what it comes to, as long as the table is of that version.
#[derive(Debug, Clone, Copy)]
struct KnownRun {
    run: IndexRun,
    version: u64,
    noted: Noted,
}

/// The runs that a connection remembers.
#[derive(Debug, Default)]
pub(super) struct Runs(Option<Box<[Option<KnownRun>; RUNS]>>);

impl Runs {
    #[inline]
    pub(super) fn find(&self, run: IndexRun, version: u64) -> Option<&Noted> {
        let known = self.0.as_ref()?[place(run)].as_ref()?;
        (known.run == run && known.version == version).then_some(&known.noted)
    }

    #[cold]
    pub(super) fn keep(&mut self, run: IndexRun, version: u64, noted: Noted) {
        let known = self.0.get_or_insert_default();
        known[place(run)] = Some(KnownRun { run, version, noted });
    }
}

/// Runs that differ in one byte have different places mostly.
#[inline]
fn place(run: IndexRun) -> usize {
    (run.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as usize % RUNS
}

#[cfg(test)]
mod tests {
    use super::IndexRun;

    #[test]
    fn a_run_is_what_a_block_begins_with() {
        for (block, len) in [
            (&b""[..], 0),
            (b"\x83", 1),
            (b"\x83\x86\xbe", 3),
            (b"\x83\x86\x0f\xbe", 2),
            (b"\x0f\x86\x83\xbe\x83\x83\x83\x83\x83", 0),
            (b"\x83\x84\x85\x86\x87\x88\x89\x0f\x83", 7),
            (b"\x83\x84\x85\x86\x87\x88\x89\x8a\x8b", 8),
        ] {
            let run = IndexRun::at_front(block);
            assert_eq!(run.len(), len, "{block:?}");
            assert_eq!(run.0.to_le_bytes()[..len], block[..len]);
            assert!(run.0.to_le_bytes()[len..].iter().all(|&byte| byte == 0));
        }
    }
}
