//! A DATA frame that is being received.

use super::StreamHandle;

/// A DATA frame that has not arrived completely.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    pub(super) is_active: bool,
    /// The stream; `None` if it was reset, so that the bytes are skipped.
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
