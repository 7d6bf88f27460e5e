//! A buffer for encoding that calls use one after another.

use std::cell::Cell;

use crate::limits;

#[derive(Default)]
pub(super) struct Scratch(Cell<Vec<u8>>);

impl Scratch {
    /// Takes the buffer, which is empty; give it back for reuse.
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.take()
    }

    pub(super) fn give_back(&self, mut memory: Vec<u8>) {
        memory.clear();
        if (1..=limits::CLIENT_SCRATCH_BYTES_KEPT).contains(&memory.capacity()) {
            self.0.set(memory);
        }
    }
}
