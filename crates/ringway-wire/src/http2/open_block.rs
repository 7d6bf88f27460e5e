//! A field block on its way (RFC 9113, section 6.10).

/// A field block whose CONTINUATION has not come.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    /// 0: there is none.
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
