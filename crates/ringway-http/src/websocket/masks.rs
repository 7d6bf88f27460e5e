//! The masks of a client's frames.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// Generates numbers that nobody can predict without the key, which comes from the system. Otherwise a page could make
/// a client write bytes of its choice, which a proxy might take for a request (RFC 6455 section 10.3).
#[derive(Default, Debug)]
pub(super) struct Masks {
    key: RandomState,
    count: Cell<u64>,
}

impl Masks {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn next(&self) -> [u8; 4] {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        let [a, b, c, d, ..] = self.key.hash_one(count).to_le_bytes();
        [a, b, c, d]
    }
}
