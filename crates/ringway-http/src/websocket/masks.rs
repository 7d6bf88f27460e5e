//! The masks of a client's frames.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// Numbers that nobody can foretell who has not the key, which the system has given: so no page can make a
/// client write bytes of the page's choice, that a proxy would take for a request (RFC 6455, section 10.3).
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
