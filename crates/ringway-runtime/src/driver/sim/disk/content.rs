//! What is in a simulated file: as programs see it, as it is on the disk, and what is between the two.

use std::collections::VecDeque;

use crate::driver::sim::rng::Rng;
use crate::limits;

/// The bytes of one file.
#[derive(Default, Debug)]
pub(super) struct FileContent {
    /// What a read finds.
    now: Vec<u8>,
    /// What is there after a crash, whatever happens.
    durable: Vec<u8>,
    /// What a crash may take or leave, oldest first.
    unsynced: VecDeque<Change>,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Len(usize),
}

impl FileContent {
    pub(super) fn len(&self) -> usize {
        self.now.len()
    }

    /// At most `bytes` bytes that begin at `at`.
    pub(super) fn read(&self, at: usize, bytes: usize) -> &[u8] {
        let rest = self.now.get(at..).unwrap_or_default();
        &rest[..rest.len().min(bytes)]
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.change(Change::Write { at, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.change(Change::Len(len));
    }

    fn change(&mut self, change: Change) {
        if self.unsynced.len() >= limits::SIM_UNSYNCED_MAX
            && let Some(oldest) = self.unsynced.pop_front()
        {
            oldest.apply(&mut self.durable, usize::MAX); // a kernel writes back unasked, too
        }
        change.apply(&mut self.now, usize::MAX);
        self.unsynced.push_back(change);
    }

    /// Everything is on the disk.
    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable, usize::MAX);
        }
    }

    /// The disk has refused: what was not there before never will be, although reads find it and later syncs
    /// succeed. So Linux does it.
    pub(super) fn fail_sync(&mut self) {
        self.unsynced.clear();
    }

    /// Each change since the last sync is lost, kept, or torn: only its beginning is kept.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        for change in self.unsynced.drain(..) {
            match rng.below(3) {
                0 => {}
                1 => change.apply(&mut self.durable, usize::MAX),
                _ => {
                    let kept = rng.below(change.len() + 1);
                    change.apply(&mut self.durable, kept);
                }
            }
        }
        self.now.clone_from(&self.durable);
    }
}

impl Change {
    fn len(&self) -> usize {
        match self {
            Change::Write { bytes, .. } => bytes.len(),
            Change::Len(_) => 1,
        }
    }

    /// Makes the first `kept` bytes of this change; a length is set whole or not at all.
    fn apply(&self, to: &mut Vec<u8>, kept: usize) {
        match self {
            Change::Write { at, bytes } => {
                let bytes = &bytes[..bytes.len().min(kept)];
                if bytes.is_empty() {
                    return;
                }
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*at..end].copy_from_slice(bytes);
            }
            Change::Len(len) if kept > 0 => to.resize(*len, 0),
            Change::Len(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_synced_survives_every_crash() {
        for seed in 0..200 {
            let mut content = FileContent::default();
            content.write(0, b"synced");
            content.sync();
            content.write(6, b" and more");
            content.crash(&mut Rng::new(seed));
            let left = content.read(0, 100);
            assert!(
                b"synced and more".starts_with(left) && left.len() >= 6,
                "seed {seed}: {left:?}"
            );
        }
    }

    #[test]
    fn what_is_not_synced_is_kept_lost_and_torn() {
        let mut seen = [false; 3];
        for seed in 0..100 {
            let mut content = FileContent::default();
            content.write(0, b"0123456789");
            content.crash(&mut Rng::new(seed));
            let kind = match content.len() {
                0 => 0,
                10 => 1,
                _ => 2,
            };
            seen[kind] = true;
        }
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn what_a_failed_sync_had_to_write_is_lost_for_good() {
        let mut content = FileContent::default();
        content.write(0, b"first");
        content.fail_sync();
        content.write(5, b" second");
        content.sync();
        assert_eq!(content.read(0, 100), b"first second");
        content.crash(&mut Rng::new(1));
        assert_eq!(content.read(0, 100), b"\0\0\0\0\0 second");
    }

    #[test]
    fn changes_that_wait_for_a_sync_are_bounded() {
        let mut content = FileContent::default();
        for at in 0..limits::SIM_UNSYNCED_MAX * 2 {
            content.write(at, b"x");
        }
        assert_eq!(content.unsynced.len(), limits::SIM_UNSYNCED_MAX);
        content.crash(&mut Rng::new(1));
        assert!(content.len() >= limits::SIM_UNSYNCED_MAX);
    }
}
