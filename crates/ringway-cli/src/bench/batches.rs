//! Buffers of packets that return once the kernel has taken their bytes.

use std::sync::{Arc, Mutex, PoisonError};

/// The buffers of a core, all of one length.
#[derive(Clone, Default)]
pub(super) struct Pool {
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A buffer that goes back to its pool.
pub(super) struct Batch {
    bytes: Vec<u8>,
    home: Pool,
}

impl Pool {
    /// Takes a buffer of `len` bytes, which may contain anything.
    pub(super) fn take(&self, len: usize) -> Batch {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Batch { bytes: spare.unwrap_or_else(|| vec![0; len]), home: self.clone() }
    }
}

impl Batch {
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Batch {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.spare.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}
