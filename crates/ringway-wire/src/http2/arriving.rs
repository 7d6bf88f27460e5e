//! A frame that is being received and not assembled: DATA, or one of an unknown type.

use super::StreamHandle;

/// A frame that has not arrived completely.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    pub(super) is_active: bool,
    /// The stream; `None` if the bytes are skipped.
    pub(super) stream: Option<StreamHandle>,
    /// Bytes of content still to come.
    pub(super) left: u32,
    /// Bytes of padding still to come.
    pub(super) padding: u32,
    /// Whether the byte with the length of the padding is still to come.
    pub(super) wants_padding: bool,
    pub(super) end: bool,
    /// Whether the frame has delivered any content.
    pub(super) has_content: bool,
}

impl Arriving {
    /// A frame whose payload of `len` bytes means nothing to us (RFC 9113, section 4.1).
    pub(super) fn skipped(len: u32) -> Self {
        Self { is_active: true, left: len, has_content: true, ..Self::default() }
    }
}
