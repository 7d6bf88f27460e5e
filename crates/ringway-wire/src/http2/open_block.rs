//! A field block that is being received (RFC 9113, section 6.10).

/// A field block whose CONTINUATION has not arrived.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) stream: u32,
    pub(super) end: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}
