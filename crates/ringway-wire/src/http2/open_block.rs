//! A field block that is being received (RFC 9113, section 6.10).

/// A field block whose CONTINUATION has not arrived.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    /// The stream, or 0 if no block is open.
    pub(super) stream: u32,
    pub(super) end: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

impl OpenBlock {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}
