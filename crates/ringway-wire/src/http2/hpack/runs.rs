//! Runs of indexed fields at the start of blocks, remembered with their result: most requests of a
//! connection differ in a field or two only.

use crate::http2::fields::Noted;

/// The bytes of a run, each a one-byte index, lowest first; then zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexRun(u64);

/// Shortest run for which a look-up saves more than it costs.
pub(super) const RUN_MIN: usize = 3;

/// Runs that a connection remembers, in 640 bytes: one per method when a few are called
/// alternately.
const RUNS: usize = 4;

/// The highest bit of each byte, which a one-byte index has.
const HIGH: u64 = 0x8080_8080_8080_8080;

impl IndexRun {
    /// The run at the start of a block, of eight bytes at most.
    #[inline]
    pub(super) fn at_front(block: &[u8]) -> Self {
        let front = match block.first_chunk() {
            Some(front) => u64::from_le_bytes(*front),
            None => block.iter().rev().fold(0, |bytes, &byte| bytes << 8 | u64::from(byte)),
        };
        let others = !front & HIGH;
        // The bits below the first byte that is no index, or all bits.
        let below = ((others & others.wrapping_neg()) >> 7).wrapping_sub(1);
        Self(front & below)
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        8 - self.0.leading_zeros() as usize / 8
    }
}

/// A run with its result, valid for one version of the table.
#[derive(Debug, Clone, Copy)]
struct KnownRun {
    run: IndexRun,
    version: u32,
    noted: Noted,
}

/// The remembered runs of a connection.
#[derive(Debug, Default)]
pub(super) struct Runs(Option<Box<[Option<KnownRun>; RUNS]>>);

impl Runs {
    #[inline]
    pub(super) fn find(&self, run: IndexRun, version: u32) -> Option<&Noted> {
        let known = self.0.as_ref()?[bucket(run)].as_ref()?;
        (known.run == run && known.version == version).then_some(&known.noted)
    }

    #[cold]
    pub(super) fn keep(&mut self, run: IndexRun, version: u32, noted: Noted) {
        let known = self.0.get_or_insert_default();
        known[bucket(run)] = Some(KnownRun { run, version, noted });
    }
}

/// The bucket of a run; runs that differ in one byte mostly have different ones.
#[inline]
fn bucket(run: IndexRun) -> usize {
    (run.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as usize % RUNS
}

#[cfg(test)]
mod tests {
    use super::IndexRun;

    #[test]
    fn a_run_ends_before_the_first_byte_that_is_no_index() {
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
